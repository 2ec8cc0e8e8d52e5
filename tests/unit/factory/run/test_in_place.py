"""The credentials with which a run uses its repo."""

from pathlib import Path

import pytest

from gigafactory.domain.errors import Forbidden
from gigafactory.factory.forges.registry import ForgeAccess, Forges
from gigafactory.factory.run.in_place import repo_address
from tests.support.factory.github_repo import HOST, ShippingRuns


@pytest.mark.parametrize(("product", "served"), [("default", True), ("bravo", False)])
def test_a_run_uses_the_credentials_of_its_own_product_only(
    tmp_path: Path, product: str, *, served: bool
) -> None:
    access = {HOST: ForgeAccess("TOKEN", products=("default",))}
    desk = ShippingRuns(tmp_path, "notes")
    run, _ = desk.run(Forges(access, {"TOKEN": "own-token"}), commit="c1", product=product)
    if served:
        assert repo_address(run) is not None
    else:
        with pytest.raises(Forbidden, match="do not serve product 'bravo'"):
            repo_address(run)
    desk.close()
