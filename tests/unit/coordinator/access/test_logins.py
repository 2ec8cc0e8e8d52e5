"""Browser logins: a code works once, and a login ends with the person's token."""

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


async def test_browser_login_gets_the_same_role_and_products_as_the_person(tmp_path: Path) -> None:
    fleet = a_coordinator(tmp_path)
    code = await fleet.logins.issue_code(await ann(fleet))
    token = (await fleet.logins.sign_in_with_code(code.code)).token
    assert (token.for_, token.user, token.role) == (TokenKind.LOGIN, "ann", Role.REVIEWER)
    assert token.products == ("notes",)
    assert token.expires_at is not None


async def test_login_code_used_twice_at_once_works_once(tmp_path: Path) -> None:
    fleet = a_coordinator(tmp_path)
    code = await fleet.logins.issue_code(await ann(fleet))
    tries = [fleet.logins.sign_in_with_code(code.code) for _ in range(2)]
    results = await asyncio.gather(*tries, return_exceptions=True)
    assert sorted(type(result).__name__ for result in results) == ["IssuedToken", "Unauthenticated"]


async def test_revoked_token_ends_its_browser_logins_and_codes(tmp_path: Path) -> None:
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


async def test_browser_login_can_sign_out_and_cannot_issue_codes(tmp_path: Path) -> None:
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
