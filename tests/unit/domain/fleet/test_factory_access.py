"""Access to factories: who may see one, and who may act on it."""

import pytest

from gigafactory.domain.errors import Forbidden, NotFound
from gigafactory.domain.fleet.factory import Factory
from gigafactory.domain.fleet.factory_access import require_control, require_visible, visible_part
from gigafactory.domain.tenancy.access import Caller, Role
from tests.support.builders import a_factory

ANN = Caller(actor="user:ann", role=Role.ADMIN, products=("notes",))
ROOT = Caller(actor="user:root", role=Role.ADMIN, products=("*",))
OWN = a_factory(products=("notes",), repos=("notes-web",))
SHARED = a_factory(products=("*",), repos=("notes-web", "bravo-merger"))
BOTH = a_factory(products=("notes", "bravo"), repos=("bravo-merger",))
FOREIGN = a_factory(products=("bravo",))


def test_an_admin_controls_the_factories_of_its_own_products() -> None:
    assert require_control(ANN, "enroll", "mac-1", OWN) is OWN
    assert require_control(ROOT, "enroll", "mac-1", SHARED) is SHARED


@pytest.mark.parametrize("factory", [SHARED, BOTH])
def test_a_shared_factory_is_seen_but_not_controlled(factory: Factory) -> None:
    assert require_visible(ANN, "mac-1", factory) is factory
    with pytest.raises(Forbidden, match="concerns others too"):
        require_control(ANN, "enroll", "mac-1", factory)


@pytest.mark.parametrize("factory", [FOREIGN, None])
def test_a_foreign_factory_is_like_one_that_does_not_exist(factory: Factory | None) -> None:
    with pytest.raises(NotFound):
        require_control(ANN, "enroll", "mac-1", factory)


def test_a_role_is_refused_before_it_learns_whether_the_factory_exists() -> None:
    viewer = Caller(actor="user:vic", role=Role.VIEWER, products=("notes",))
    for factory in (OWN, FOREIGN, None):
        with pytest.raises(Forbidden):
            require_control(viewer, "drain", "mac-1", factory)


def test_a_factory_controls_itself_and_no_other() -> None:
    itself = Caller(actor="factory:mac-1", factory_id="mac-1", products=("notes",))
    assert require_control(itself, "drain", "mac-1", OWN) is OWN
    with pytest.raises(Forbidden):
        require_control(itself, "drain", "mac-2", a_factory(id="mac-2", products=("notes",)))


def test_a_shared_factory_is_shown_without_the_names_of_others() -> None:
    seen = visible_part(ANN, SHARED, {"notes-web"})
    assert (seen.products, seen.repos) == (("*",), ("notes-web",))
    assert visible_part(ANN, BOTH, ()).products == ("notes",)
    assert visible_part(ANN, BOTH, ()).repos == ()
    assert visible_part(ROOT, BOTH, ()) is BOTH
    assert visible_part(ANN, OWN, ()) is OWN
    itself = Caller(actor="factory:mac-1", factory_id="mac-1", products=("notes",))
    assert visible_part(itself, BOTH, ()) is BOTH
