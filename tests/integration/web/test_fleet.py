"""The fleet page: factory cards, actions and invitations."""

import re
from datetime import timedelta

import pytest

from gigafactory.domain.tenancy.access import Role
from tests.support.api_server import SYSTEM, Server, Worker, a_worker
from tests.support.web_session import Visitor, a_visitor


async def test_factory_card_shows_state_engines_and_running_jobs(
    ann: Visitor, server: Server, worker: Worker
) -> None:
    rests = (server.coordinator.clock.now() + timedelta(hours=2)).isoformat()
    engines = {
        "claude": {"version": "2.1.0", "seats": 2},
        "codex": {"seats": 1, "coolingUntil": rests},
        "pi": {"seats": 1, "unavailable": "not signed in"},
    }
    busy = {"load": 0.42, "memory": 0.5, "disk": 0.07}
    said = await worker.beat(
        engines=engines, repos=["notes"], labels=["fast"], capabilities=["os:mac"], **busy
    )
    assert said.status_code == 200, said.text
    async with server.client() as admin:
        await admin.post("/jobs", json={"manifest": {"name": "one"}, "body": "# Paint it"})
        await worker.granted()
    text = await ann.page("/fleet")
    card = text[text.index('id="mac-1"') :]
    for words in (
        *("1 of 4 slots", "health ", "load 42%", "memory 50%", "disk 7%"),
        *("<td>2.1.0</td><td>1/2</td>", "ready", "cooling down, <time data-until=", ">1 h 59 min<"),
        *('<span class="fault">not signed in</span>', ">Paint it</a>", "repos: notes"),
        *("fast", "1 capabilities", "os:mac"),
    ):
        assert words in card, words
    assert "cpu" not in card, "what a machine does not tell is not shown"


async def test_factory_card_shows_exclusive_capabilities(
    ann: Visitor, server: Server, worker: Worker
) -> None:
    await worker.beat(capabilities=["os:mac", "has:xcode"])
    assert "only on this factory" not in await ann.page("/fleet"), (
        "alone, it is the only one for everything"
    )
    async with a_worker(server, "mac-2") as other:
        await other.beat(capabilities=["os:mac", "gpu"])
        text = await ann.page("/fleet")
    first, second = text[text.index('id="mac-1"') :].split('id="mac-2"')
    assert "only on this factory: has:xcode<" in first
    assert "only on this factory: gpu<" in second


async def test_factory_card_says_that_it_takes_no_yolo_jobs_and_what_to_do(
    ann: Visitor, worker: Worker
) -> None:
    await worker.beat(capabilities=["os:linux", "sandbox:none", "sandbox:workspace"])
    assert "takes no yolo jobs" not in await ann.page("/fleet")
    await worker.beat(capabilities=["os:linux", "sandbox:none", "sandbox:broken"])
    assert "it takes no yolo jobs: install bubblewrap there" in await ann.page("/fleet")


async def done(ann: Visitor, verb: str) -> str:
    """Take an action on the factory and return the page."""
    answer = await ann.send(f"/fleet/mac-1/{verb}")
    assert answer.status_code == 303, answer.text
    return await ann.page(answer.headers["location"])


async def test_factory_is_drained_and_resumed(ann: Visitor, worker: Worker) -> None:
    assert "mac-1 is draining" in await done(ann, "drain")
    assert {"type": "drain"} in (await worker.beat()).json()["commands"]
    assert "mac-1 takes jobs again" in await done(ann, "resume")
    assert (await worker.beat()).json()["commands"] == []


async def test_rotated_token_is_shown_once_and_the_old_one_is_revoked(
    ann: Visitor, server: Server, worker: Worker
) -> None:
    answer = await ann.send("/fleet/mac-1/rotate")
    found = re.search(r'id="token">(gff_[^<]+)<', answer.text)
    assert found is not None
    assert (await worker.beat()).status_code == 401
    async with server.client(found[1], product=None) as http:
        assert (await Worker("mac-1", http).beat()).status_code == 200
    assert found[1] not in await ann.page("/fleet")


async def test_revoked_factory_is_unauthorized(ann: Visitor, worker: Worker) -> None:
    assert "its token is revoked" in await done(ann, "revoke")
    assert (await worker.beat()).status_code == 401
    assert 'id="mac-1"' in await ann.page("/fleet")


async def test_factory_is_deregistered(ann: Visitor, worker: Worker) -> None:
    assert "mac-1 is removed from the fleet" in await done(ann, "deregister")
    assert (await worker.beat()).status_code == 401
    assert 'id="mac-1"' not in await ann.page("/fleet")


async def test_irreversible_actions_ask_for_confirmation(ann: Visitor, worker: Worker) -> None:
    text = await ann.page("/fleet")
    for verb in ("rotate", "revoke", "deregister"):
        form = f'action="/fleet/{worker.id}/{verb}"'
        assert re.search(
            r'<details class="asks"[^>]*><summary>[^<]+</summary><form [^>]*' + form, text
        )


async def test_unknown_factory_action_is_not_found(ann: Visitor, worker: Worker) -> None:
    await done(ann, "drain")
    assert (await ann.send(f"/fleet/{worker.id}/explode")).status_code == 404
    assert "Resume mac-1" in await ann.page("/fleet"), "it is still drained"


@pytest.mark.parametrize("verb", ["rotate", "revoke", "deregister"])
async def test_operator_cannot_manage_factory_tokens(
    server: Server, worker: Worker, verb: str
) -> None:
    async with a_visitor(server, "otto", Role.OPERATOR) as otto:
        assert f"/{verb}" not in await otto.page("/fleet")
        assert (await otto.send(f"/fleet/mac-1/{verb}")).status_code == 403
        assert (await worker.beat()).status_code == 200


async def test_unknown_confirmation_is_not_shown(ann: Visitor) -> None:
    assert "mac-1 takes jobs again" in await ann.page("/fleet?did=resume&to=mac-1")
    assert 'class="notice"' not in await ann.page("/fleet?did=nonsense&to=mac-1")
    await ann.page("/fleet?did=resume&to=Call+this+number:+it", 422)


async def test_unused_invitation_is_listed_and_withdrawn(ann: Visitor, server: Server) -> None:
    assert "Open invitations" not in await ann.page("/fleet")
    made = [await ann.send("/fleet/enroll") for _ in range(2)]
    secrets = [re.findall(r"--secret (gfe_\S+)", each.text)[0] for each in made]
    text = await ann.page("/fleet")
    ids = re.findall(r'action="/fleet/enrollments/([^"]+)/withdraw"', text)
    assert len(ids) == 2
    assert "all products" in text
    assert "gfe_" not in text
    answer = await ann.send(f"/fleet/enrollments/{ids[0]}/withdraw")
    assert answer.headers["location"] == "/fleet?did=withdraw"
    text = await ann.page(answer.headers["location"])
    assert "The invitation is withdrawn" in text
    assert ids[0] not in text
    assert (await ann.send(f"/fleet/enrollments/{ids[0]}/withdraw")).status_code == 404
    async with server.client(product=None) as machine:
        for secret, status in zip(secrets, (401, 201), strict=True):
            asked = {"secret": secret, "factoryId": "mac-9"}
            assert (await machine.post("/factories/enroll", json=asked)).status_code == status
    assert "Open invitations" not in await ann.page("/fleet"), "it was used"


async def test_operator_cannot_see_or_withdraw_invitations(ann: Visitor, server: Server) -> None:
    await ann.send("/fleet/enroll")
    (made,) = await server.coordinator.enrolment.invitations(SYSTEM)
    async with a_visitor(server, "otto", Role.OPERATOR) as otto:
        assert made.id not in await otto.page("/fleet")
        refused = await otto.send(f"/fleet/enrollments/{made.id}/withdraw")
        assert refused.status_code == 403
    assert made.id in await ann.page("/fleet")


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_enroll_command_contains_the_browsers_url(ann: Visitor, scheme: str) -> None:
    form = {"csrf": await ann.csrf()}
    prefix = "__Host-" if scheme == "https" else ""
    cookie = f"{prefix}gf_session={ann.http.cookies['gf_session']}"
    proxied = {"x-forwarded-proto": scheme, "host": "fleet.example", "cookie": cookie}
    answer = await ann.http.post("/fleet/enroll", data=form, headers=proxied)
    found = re.search(r'id="command">([^<]+)<', answer.text)
    assert found is not None
    command = found[1].replace("&amp;", "&")
    wanted = rf"aq factory enroll --url {scheme}://fleet\.example --secret gfe_\S+"
    assert re.fullmatch(wanted + " && aq factory run", command)
    assert "gfe_" not in await ann.page("/fleet")
