"""`aq product` as a process against a real fleet."""

from pathlib import Path
from typing import Any

from gigafactory.client import products
from gigafactory.client.transport.sync_client import Client
from tests.services.aq import Shell, serving


def test_product_set_changes_only_the_given_fields(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    with serving(shell) as served:
        assert "no product is configured" in shell.aq("product", "list").err
        shown = shell.aq("product", "show", "shop").out
        assert "repos            any" in shown
        assert "affinity=0.5" in shown
        repos = ("--repo", "shop", "--repo", "site", "--protect", ".github/**")
        made = shell.aq("product", "set", "shop", "--share", "2", *repos)
        assert made.code == 0, made.err
        more = ("--weight", "affinity=0.9", "--target-wait", "critical=5m")
        data: Any = shell.aq("product", "set", "-p", "shop", *more, "--json").json()
        assert (data["share"], data["repos"]) == (2.0, ["shop", "site"])
        assert data["protectedPaths"] == [".github/**"]
        assert (data["weights"]["affinity"], data["weights"]["load"]) == (0.9, 1.0)
        assert data["targetWait"] == {"critical": "5m"}
        with Client(served.url, served.token) as admin:
            assert admin.send(products.product("shop")).target_wait == {"critical": "5m"}
        listed = shell.aq("product", "list").out.splitlines()
        assert listed[1].split() == ["shop", "2.0", "critical=5m", "1", "shop,", "site"]
        emptied = ("--repo", "", "--protect", "", "--target-wait", "critical=none")
        assert "target wait      none" in shell.aq("product", "set", "shop", *emptied).out
        data = shell.aq("product", "list", "--json").json()
        assert [(p["id"], p["repos"], p["share"]) for p in data["products"]] == [("shop", [], 2.0)]
        assert shell.aq("product", "set", "shop").code == 2
        for wrong, words in (
            (("--weight", "affinity=much"), "expected a number from 0 to 1000"),
            (("--weight", "affinity=nan"), "expected a number from 0 to 1000"),
            (("--weight", "beauty=1"), "expected NAME=… of capabilityFit"),
            (("--target-wait", "low"), "expected NAME=… of critical"),
            (("--target-wait", "low=soon"), "expected a duration"),
            (("--share", "0"), "not in the range"),
        ):
            ran = shell.aq("product", "set", "shop", *wrong)
            assert (ran.code, words in ran.err) == (2, True), ran.err
        refused = shell.aq("product", "set", "shop", "--repo", "a b")
        assert (refused.code, "repos[0]" in refused.err) == (1, True), refused.err
