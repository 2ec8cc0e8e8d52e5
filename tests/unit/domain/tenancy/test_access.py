"""Access rules: roles and the actions that they allow."""

import pytest

from gigafactory.domain.errors import Forbidden, NotFound
from gigafactory.domain.job.lifecycle import ACTIONS
from gigafactory.domain.tenancy.access import (
    OWN_PRODUCTS,
    ROLES_BY_VERB,
    AgentScope,
    Caller,
    Enrollment,
    LoginCode,
    Role,
    SecretGuessing,
    Token,
    TokenKind,
    sole_product,
)
from tests.support.builders import NOON, after


def a_token(**fields: object) -> Token:
    known: dict[str, object] = {"expires_at": None, "revoked_at": None}
    return Token(
        id="t-1",
        hash="h-1",
        for_=TokenKind.OPERATOR,
        user="ann",
        created_at=NOON,
        created_by="user:root",
        **(known | fields),  # type: ignore[arg-type]
    )


@pytest.mark.parametrize("verb", ROLES_BY_VERB)
@pytest.mark.parametrize("role", Role)
def test_role_has_exactly_the_verbs_of_the_table(role: Role, verb: str) -> None:
    caller = Caller(actor="user:ann", role=role)
    if role in ROLES_BY_VERB[verb]:
        caller.require(verb, OWN_PRODUCTS)
        return
    with pytest.raises(Forbidden, match=f"user:ann has role {role}; {verb} needs one of: "):
        caller.require(verb, OWN_PRODUCTS)


def test_every_action_is_a_verb_of_the_table() -> None:
    assert ACTIONS.keys() <= ROLES_BY_VERB.keys()


def test_viewer_only_reads_and_admin_may_do_everything() -> None:
    assert {verb for verb, roles in ROLES_BY_VERB.items() if Role.VIEWER in roles} == {"read"}
    assert all(Role.ADMIN in roles for roles in ROLES_BY_VERB.values())
    assert Role.OPERATOR not in ROLES_BY_VERB["approve"]
    assert Role.OPERATOR in ROLES_BY_VERB["request-changes"], (
        "a ship conflict is the operator's to send"
    )
    assert Role.REVIEWER not in ROLES_BY_VERB["cancel"]


def test_factory_token_has_no_verbs_of_people() -> None:
    with pytest.raises(Forbidden, match="factory:mac-1 has a factory token; ship needs one of"):
        Caller(actor="factory:mac-1", factory_id="mac-1").require("ship", OWN_PRODUCTS)


def test_caller_sees_the_products_of_its_token() -> None:
    assert Caller(actor="user:ann", products=("*",)).can_see("notes")
    assert Caller(actor="user:ann", products=("notes",)).can_see("notes")
    assert not Caller(actor="user:ann", products=("other",)).can_see("notes")
    assert not Caller(actor="user:ann").can_see("notes")


def test_caller_covers_the_chosen_product_or_all_visible_ones() -> None:
    assert Caller(actor="user:ann", products=("*",)).covers("notes")
    assert Caller(actor="user:ann", products=("*",), product="notes").covers("notes")
    assert not Caller(actor="user:ann", products=("*",), product="shop").covers("notes")
    assert not Caller(actor="user:ann", products=("shop",)).covers("notes")


ADMIN_OF_NOTES = Caller(actor="user:ann", role=Role.ADMIN, products=("notes",))
FLEET_ADMIN = Caller(actor="user:root", role=Role.ADMIN, products=("*",))


@pytest.mark.parametrize("verb", ROLES_BY_VERB)
def test_an_admin_of_one_product_has_no_verb_on_what_concerns_others(verb: str) -> None:
    ADMIN_OF_NOTES.require(verb, ("notes",))
    for products in (("bravo",), ("notes", "bravo"), ("*",)):
        with pytest.raises(Forbidden, match="user:ann covers only notes, and this concerns others"):
            ADMIN_OF_NOTES.require(verb, products)
        FLEET_ADMIN.require(verb, products)


def test_a_token_without_products_covers_nothing() -> None:
    with pytest.raises(Forbidden, match="covers only no product"):
        Caller(actor="user:ann", role=Role.ADMIN).require("tokens", ("notes",))


def test_a_foreign_product_is_not_found_and_the_fleet_is_forbidden() -> None:
    ADMIN_OF_NOTES.require_product("halt", "notes")
    FLEET_ADMIN.require_product("halt", "*")
    with pytest.raises(NotFound):
        ADMIN_OF_NOTES.require_product("halt", "bravo")
    with pytest.raises(Forbidden):
        ADMIN_OF_NOTES.require_product("halt", "*")
    with pytest.raises(Forbidden, match="role viewer"):
        Caller(actor="user:vic", role=Role.VIEWER, products=("notes",)).require_product(
            "halt", "bravo"
        )


def test_a_caller_sees_what_serves_one_of_its_products() -> None:
    assert ADMIN_OF_NOTES.sees_any(("bravo", "notes"))
    assert ADMIN_OF_NOTES.sees_any(("*",))
    assert not ADMIN_OF_NOTES.sees_any(("bravo",))
    assert FLEET_ADMIN.sees_any(("bravo",))


def test_only_fleet_scope_and_a_role_for_audit_open_the_log_of_the_fleet() -> None:
    assert FLEET_ADMIN.reads_fleet_log
    assert not ADMIN_OF_NOTES.reads_fleet_log
    assert not Caller(actor="user:vic", role=Role.VIEWER, products=("*",)).reads_fleet_log
    assert not Caller(actor="factory:m", factory_id="m", products=("*",)).reads_fleet_log


def test_what_has_one_product_is_in_the_log_of_that_product() -> None:
    assert sole_product(("notes",)) == "notes"
    assert sole_product(("notes", "bravo")) == "*"
    assert sole_product(("*",)) == "*"


def test_token_is_valid_until_it_expires_or_is_revoked() -> None:
    assert a_token().is_valid(NOON)
    assert a_token(expires_at=after(1)).is_valid(NOON)
    assert not a_token(expires_at=NOON).is_valid(NOON)
    assert not a_token(revoked_at=NOON).is_valid(NOON)


def test_secrets_are_keyed_by_their_hashes() -> None:
    enrollment = Enrollment(
        id="e-1", hash="h-2", created_at=NOON, created_by="user:ann", expires_at=after(60)
    )
    code = LoginCode(hash="h-3", token_key="h-1", expires_at=after(60))
    assert (a_token().key, enrollment.key, code.key) == ("h-1", "h-2", "h-3")


def test_secret_guessing_is_keyed_by_address() -> None:
    guessing = SecretGuessing(address="192.0.2.1", attempts=5, expires_at=after(60))
    assert (guessing.key, guessing.kind) == ("192.0.2.1", "guessing")


def test_agent_adds_children_only_to_its_own_composite() -> None:
    agent = Caller(actor="job:j-1", agent_scope=AgentScope("j-1", "roadmap"))
    agent.require_own_composite("roadmap")
    with pytest.raises(Forbidden, match="cannot add children to other, only to its own, roadmap"):
        agent.require_own_composite("other")
    with pytest.raises(Forbidden, match="to none: its job is part of no composite"):
        Caller(actor="job:j-1", agent_scope=AgentScope("j-1")).require_own_composite("j-1")
    Caller(actor="user:ann", role=Role.OPERATOR).require_own_composite("other")
