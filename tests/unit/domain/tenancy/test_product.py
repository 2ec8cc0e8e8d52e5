"""Small records of governance: kinds, keys and products."""

import pytest

from gigafactory.domain.job.change import FLEET, Record
from gigafactory.domain.manifest.profile import Profile
from gigafactory.domain.tenancy.halt_switch import HaltSwitch
from gigafactory.domain.tenancy.leader import Leader, LeaderHeartbeat
from gigafactory.domain.tenancy.product import Product, ProfileVersion, profile_key
from tests.support.builders import NOON


@pytest.mark.parametrize(
    ("record", "kind", "key", "product_id"),
    [
        (Product(id="notes"), "product", "notes", "notes"),
        (
            HaltSwitch(product_id="notes", halted=True, by="user:ann", at=NOON),
            "switch",
            "notes",
            "notes",
        ),
        (Leader(duty="reaper", holder="c-1"), "leader", "reaper", FLEET),
        (LeaderHeartbeat(duty="reaper", until=NOON), "beat", "reaper", FLEET),
    ],
    ids=["product", "switch", "leader", "beat"],
)
def test_governance_records_have_kind_key_and_product(
    record: Record, kind: str, key: str, product_id: str
) -> None:
    assert (record.kind, record.key, record.product_id) == (kind, key, product_id)
    assert (record.rev, record.expires_at) == (1, None)


def test_profile_version_keys_sort_in_saved_order() -> None:
    saved = ProfileVersion(
        product_id="notes",
        profile=Profile(name="qa", version=9),
        saved_by="user:ann",
        saved_at=NOON,
    )
    assert saved.key == profile_key("notes", "qa", 9)
    assert saved.key < profile_key("notes", "qa", 10) < profile_key("notes", "qa", 200)


def test_a_product_owns_a_repo_by_its_whole_name_or_address() -> None:
    product = Product(id="notes", repos=("notes-web", "https://git.example/acme/notes.git"))
    assert product.lists("notes-web")
    assert product.lists("git@git.example:acme/notes")
    assert not product.lists("https://evil.example/x/notes-web.git")
    assert not product.lists("/srv/private/notes-web")


@pytest.mark.parametrize(
    ("path", "listed"),
    [
        ("/srv/notes", True),
        ("/srv//./notes/part/", True),
        ("/srv/notes-2", False),
        ("/srv", False),
        ("/git.example/acme/notes", False),
    ],
)
def test_a_product_owns_the_folders_of_the_repos_that_it_lists_by_path(
    path: str, *, listed: bool
) -> None:
    product = Product(id="p", repos=("notes", "/srv/notes", "https://git.example/acme/notes"))
    assert product.lists_folder(path) is listed
