"""Signing in with a browser, by the rules alone: once, while the person's token is good."""

import asyncio
from pathlib import Path

import pytest

from gigafactory.coordinator.coordinator import Coordinator
from gigafactory.domain.errors import Forbidden, Unauthenticated
from gigafactory.domain.tenancy.access import Caller, Role, TokenKind
from tests.support.api_server import SYSTEM, a_coordinator


async def ann(fleet: Coordinator) -> Caller:
    made = await fleet.tokens.issue(SYSTEM, "ann", Role.REVIEWER, ("notes",))
    return await fleet.tokens.caller(made.secret, product=None)


async def test_a_browser_gets_what_the_person_has_and_no_more(tmp_path: Path) -> None:
    fleet = a_coordinator(tmp_path)
    code = await fleet.logins.issue_code(await ann(fleet))
    token = (await fleet.logins.sign_in_with_code(code.code)).token
    assert (token.for_, token.user, token.role) == (TokenKind.LOGIN, "ann", Role.REVIEWER)
    assert token.products == ("notes",)
    assert token.expires_at is not None


async def test_of_two_who_use_a_code_at_once_one_gets_in(tmp_path: Path) -> None:
    fleet = a_coordinator(tmp_path)
    code = await fleet.logins.issue_code(await ann(fleet))
    tries = [fleet.logins.sign_in_with_code(code.code) for _ in range(2)]
    results = await asyncio.gather(*tries, return_exceptions=True)
    assert sorted(type(result).__name__ for result in results) == ["IssuedToken", "Unauthenticated"]


async def test_a_token_that_ends_takes_its_browsers_along(tmp_path: Path) -> None:
    fleet = a_coordinator(tmp_path)
    caller = await ann(fleet)
    code = await fleet.logins.issue_code(caller)
    browser = await fleet.logins.sign_in_with_code(code.code)
    later = await fleet.logins.issue_code(caller)
    assert caller.token is not None
    await fleet.tokens.revoke(SYSTEM, caller.token.id)
    with pytest.raises(Unauthenticated):
        await fleet.tokens.caller(browser.secret, product=None)
    with pytest.raises(Unauthenticated):
        await fleet.logins.sign_in_with_code(later.code)


async def test_a_browser_leaves_once_and_cannot_hand_itself_on(tmp_path: Path) -> None:
    fleet = a_coordinator(tmp_path)
    code = await fleet.logins.issue_code(await ann(fleet))
    browser = await fleet.logins.sign_in_with_code(code.code)
    caller = await fleet.tokens.caller(browser.secret, product=None)
    with pytest.raises(Forbidden):
        await fleet.logins.issue_code(caller)
    await fleet.logins.sign_out(caller)
    with pytest.raises(Unauthenticated):
        await fleet.tokens.caller(browser.secret, product=None)
    await fleet.logins.sign_out(SYSTEM)
