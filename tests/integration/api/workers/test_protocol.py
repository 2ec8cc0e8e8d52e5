"""The worker protocol over HTTP, as any program can use it."""

import asyncio
import itertools

import httpx
import pytest

from tests.support.api_server import Server, Worker, a_worker, open_stream

pytestmark = pytest.mark.asyncio(loop_scope="module")

USAGE = {"engine": "claude", "model": "m", "tokensIn": 1200, "tokensOut": 80, "costUsd": 0.0125}


async def submit(client: httpx.AsyncClient, name: str = "a", **manifest: object) -> str:
    answer = await client.post(
        "/jobs", json={"manifest": {"name": name, **manifest}, "body": "Do it."}
    )
    assert answer.status_code == 201, answer.text
    job_id: str = answer.json()["id"]
    return job_id


async def test_factory_joins_with_a_one_time_secret(
    server: Server, admin: httpx.AsyncClient, product: str
) -> None:
    made = await admin.post("/enrollments", json={"products": [product], "expiresIn": 60})
    assert made.status_code == 201
    assert sorted(made.json()) == ["expiresAt", "id", "secret"]
    asked = {"secret": made.json()["secret"], "factoryId": f"box-{product}", "os": "linux"}
    async with server.client("", product=None) as anonymous:
        joined = await anonymous.post("/factories/enroll", json=asked)
        again = await anonymous.post("/factories/enroll", json=asked | {"factoryId": "box-2"})
    assert joined.status_code == 201
    assert sorted(joined.json()) == ["factoryId", "token"]
    assert (again.status_code, again.json()["code"]) == (401, "unauthenticated")
    async with server.client(joined.json()["token"], product=None) as client:
        beat = await Worker(f"box-{product}", client).beat(seats={"claude": 2}, engines={})
    assert beat.status_code == 200
    listed = (await admin.get(f"/factories/box-{product}")).json()
    assert (listed["online"], listed["engines"]["claude"]["seats"]) == (True, 2)


async def test_heartbeat_response_has_time_settings_and_commands(worker: Worker) -> None:
    data = (await worker.beat()).json()
    assert data["serverTime"].endswith("Z")
    assert data["settings"] == {"leaseTtlSec": 90, "renewSec": 20, "heartbeatSec": 15}
    assert data["commands"] == []


async def test_worker_carries_a_job_from_claim_to_shipped(
    admin: httpx.AsyncClient, worker: Worker
) -> None:
    job_id = await submit(admin, repo="notes", reviewPolicy="manual")
    grant = await worker.granted()
    assert sorted(grant) == [
        *("bodyMd", "engine", "expiresAt", "followUps", "job", "leaseEpoch", "manifest"),
        *("protectedPaths", "runId"),
        *("step", "workedSec"),
    ]
    assert (grant["job"]["id"], grant["job"]["stage"]) == (job_id, "assigned")
    assert (grant["leaseEpoch"], grant["step"], grant["engine"]) == (1, "run", "claude")
    assert (grant["bodyMd"], grant["followUps"]) == ("Do it.", [])
    assert grant["manifest"]["repo"] == "notes"
    assert grant["job"]["lease"] == {"factoryId": worker.id, "expiresAt": grant["expiresAt"]}

    assert (await worker.report(grant, stage="building")).json()["stage"] == "building"
    checkpoint = {"branch": f"aq/wip/{job_id}/1", "commit": "4f2a91c", "sessionId": "s1"}
    outcome = await worker.report(grant, checkpoint=checkpoint, usage=USAGE)
    assert outcome.json()["checkpoint"]["commit"] == "4f2a91c"
    renewed = await worker.http.post(f"/jobs/{job_id}/lease/renew", json={"leaseEpoch": 1})
    assert sorted(renewed.json()) == ["expiresAt", "leaseEpoch"]
    done = await worker.report(grant, stage="review", result="ok")
    assert (done.json()["stage"], done.json()["lease"]) == ("review", None)

    approved = await admin.post(
        f"/jobs/{job_id}/review", json={"decision": "approve", "commit": "4f2a91c"}
    )
    assert approved.json()["stage"] == "testing"
    unseen = await admin.post(f"/jobs/{job_id}/actions/ship")
    assert (unseen.status_code, unseen.json()["faults"][0]["field"]) == (422, "commit")
    shown = {"commit": "4f2a91c"}
    assert (await admin.post(f"/jobs/{job_id}/actions/ship", json=shown)).status_code == 200
    ship = await worker.granted()
    assert (ship["step"], ship["leaseEpoch"], ship["engine"]) == ("ship", 2, None)
    assert (await worker.report(ship, stage="shipped")).json()["stage"] == "shipped"

    runs = (await admin.get(f"/jobs/{job_id}/runs")).json()["runs"]
    assert [(run["leaseEpoch"], run["result"]) for run in runs] == [(1, "ok"), (2, "ok")]
    assert runs[0]["usage"]["costUsd"] == "0.0125"
    events = (await admin.get(f"/jobs/{job_id}/events")).json()["events"]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    kinds = [event["type"] for event in events]
    assert [kinds[0], kinds[-1]] == ["submitted", "shipped"]
    used = next(event for event in events if event["type"] == "usage")
    assert used["data"]["costUsd"] == "0.0125"


async def test_claim_on_an_empty_queue_returns_no_content(worker: Worker) -> None:
    answer = await worker.claim()
    assert (answer.status_code, answer.content) == (204, b"")


async def test_a_repeated_claim_that_got_nothing_gets_nothing(
    admin: httpx.AsyncClient, worker: Worker
) -> None:
    async def claim(key: str) -> httpx.Response:
        asked = {"factoryId": worker.id}
        return await worker.http.post("/claim", json=asked, headers={"Idempotency-Key": key})

    assert (await claim("first")).status_code == 204
    await submit(admin)
    assert (await claim("first")).status_code == 204
    granted = await claim("second")
    assert granted.status_code == 200
    assert (await claim("second")).content == granted.content


async def test_a_repeated_renewal_gets_the_same_answer(
    admin: httpx.AsyncClient, worker: Worker
) -> None:
    await submit(admin)
    grant = await worker.granted()
    path, asked = f"/jobs/{grant['job']['id']}/lease/renew", {"leaseEpoch": grant["leaseEpoch"]}

    async def renew(key: str) -> httpx.Response:
        return await worker.http.post(path, json=asked, headers={"Idempotency-Key": key})

    first = await renew("first")
    assert first.status_code == 200
    later = (await renew(f"later-{n}") for n in itertools.count())
    assert (await anext(each async for each in later if each.json() != first.json())).is_success
    assert (await renew("first")).content == first.content
    ended = await worker.report(grant, stage="failed", result="crash", reason="it crashed")
    assert ended.status_code == 200, ended.text
    assert (await renew("first")).content == first.content
    assert (await renew("another")).status_code == 409


async def test_waiting_claim_gets_the_next_submitted_job(
    admin: httpx.AsyncClient, worker: Worker
) -> None:
    waiting = asyncio.create_task(worker.claim(wait=20))
    job_id = await submit(admin)
    assert (await waiting).json()["job"]["id"] == job_id


async def test_disconnected_waiting_claim_gets_no_lease(
    server: Server, admin: httpx.AsyncClient, worker: Worker, product: str
) -> None:
    async with a_worker(server, f"gone-{product}", products=[product]) as gone:
        with pytest.raises(httpx.ReadTimeout):
            await gone.http.post("/claim", json={"factoryId": gone.id, "wait": 30}, timeout=0.2)
    await submit(admin)
    assert (await worker.granted())["leaseEpoch"] == 1


async def test_batch_claim_and_batch_report_cover_many_jobs(
    admin: httpx.AsyncClient, worker: Worker
) -> None:
    await admin.post(
        "/jobs", json={"jobs": [{"manifest": {"name": f"j{n}"}, "body": "x"} for n in range(6)]}
    )
    grants = (await worker.claim(max=10, wait=10)).json()["grants"]
    assert len(grants) == 4
    reports = [
        {"jobId": grant["job"]["id"], "leaseEpoch": grant["leaseEpoch"], "stage": "building"}
        for grant in grants
    ]
    reports.append(reports[0] | {"leaseEpoch": 7})
    answer = await worker.http.post("/reports", json={"reports": reports})
    assert answer.status_code == 200
    results = answer.json()["results"]
    assert [result["status"] for result in results] == [200, 200, 200, 200, 409]
    assert results[0]["job"]["stage"] == "building"
    assert results[4]["problem"]["code"] == "fenced"


async def test_stale_epoch_is_fenced_and_both_epochs_are_named(
    admin: httpx.AsyncClient, worker: Worker
) -> None:
    job_id = await submit(admin)
    stale = await worker.granted()
    await admin.post(f"/jobs/{job_id}/actions/release", json={"reason": "move it"})
    for answer in (
        await worker.report(stale, stage="building"),
        await worker.http.post(f"/jobs/{job_id}/lease/renew", json={"leaseEpoch": 1}),
        await worker.http.post(
            "/fail", json={"jobId": job_id, "leaseEpoch": 1, "result": "crash", "reason": "x"}
        ),
        await worker.http.post(f"/jobs/{job_id}/logs?leaseEpoch=1&offset=0", content=b"x"),
    ):
        assert (answer.status_code, answer.json()["code"]) == (409, "fenced")
        assert answer.json()["presented"] == 1
        assert answer.json()["current"] > 1
        assert answer.json()["jobId"] == job_id
    events = (await admin.get(f"/jobs/{job_id}/events")).json()["events"]
    assert [event["type"] for event in events].count("fenced") == 1


async def test_guessed_epoch_is_fenced(admin: httpx.AsyncClient, worker: Worker) -> None:
    await submit(admin)
    grant = await worker.granted()
    answer = await worker.report(grant | {"leaseEpoch": 2}, stage="building")
    assert (answer.status_code, answer.json()["code"]) == (409, "fenced")


async def test_factory_cannot_act_for_another_factory(
    server: Server, admin: httpx.AsyncClient, worker: Worker, product: str
) -> None:
    job_id = await submit(admin)
    grant = await worker.granted()
    async with a_worker(server, f"other-{product}", products=[product]) as other:
        assert (await other.report(grant, stage="building")).status_code == 404
        claim = await other.http.post("/claim", json={"factoryId": worker.id})
        assert (claim.status_code, claim.json()["code"]) == (403, "forbidden")
        assert "use the factory's own token" in claim.json()["detail"]
        assert (await other.http.post(f"/factories/{worker.id}/drain")).status_code == 403
    async with a_worker(server, f"far-{product}", products=["elsewhere"]) as stranger:
        outcome = await stranger.report(grant, stage="building")
        assert (outcome.status_code, outcome.json()["code"]) == (404, "not_found")
    assert (await admin.get(f"/jobs/{job_id}")).json()["stage"] == "assigned"


async def test_a_failed_run_frees_its_lease_at_once(
    admin: httpx.AsyncClient, worker: Worker
) -> None:
    job_id = await submit(admin)
    grant = await worker.granted()
    failed = {"jobId": job_id, "leaseEpoch": grant["leaseEpoch"], "result": "crash"}
    answer = await worker.http.post("/fail", json=failed | {"reason": "exit code 137"})
    data = answer.json()
    assert (data["stage"], data["result"], data["reason"], data["lease"]) == (
        "failed",
        "crash",
        "exit code 137",
        None,
    )


async def test_released_job_is_queued_without_a_counted_attempt(
    admin: httpx.AsyncClient, worker: Worker
) -> None:
    job_id = await submit(admin)
    await worker.granted()
    answer = await worker.http.post(
        f"/jobs/{job_id}/lease/release", json={"leaseEpoch": 1, "reason": "draining"}
    )
    assert (answer.json()["stage"], answer.json()["attempts"]) == ("queued", 0)


async def test_cancel_is_a_command_in_the_next_heartbeat(
    admin: httpx.AsyncClient, worker: Worker
) -> None:
    job_id = await submit(admin)
    await worker.granted()
    await admin.post(f"/jobs/{job_id}/actions/cancel")
    data = (await worker.beat(running=[job_id])).json()
    assert data["commands"] == [{"type": "cancel", "jobId": job_id}]
    released = await worker.http.post(
        f"/jobs/{job_id}/lease/release", json={"leaseEpoch": 1, "reason": "stopped"}
    )
    assert released.status_code == 200
    assert (await worker.beat()).json()["commands"] == []


async def test_draining_factory_gets_a_drain_command_and_no_grants(
    admin: httpx.AsyncClient, worker: Worker
) -> None:
    drained = await admin.post(f"/factories/{worker.id}/drain")
    assert drained.json()["draining"] is True
    await submit(admin)
    assert (await worker.beat()).json()["commands"] == [{"type": "drain"}]
    assert (await worker.claim()).status_code == 204
    await admin.post(f"/factories/{worker.id}/drain", json={"draining": False})
    assert (await worker.granted())["job"]["name"] == "a"


async def test_rotated_token_is_replaced_by_the_new_one(server: Server, worker: Worker) -> None:
    rotated = await worker.http.post(f"/factories/{worker.id}/token/rotate")
    assert (await worker.beat()).status_code == 401
    async with server.client(rotated.json()["token"], product=None) as client:
        assert (await Worker(worker.id, client).beat()).status_code == 200


async def test_deregistered_factory_is_not_found(admin: httpx.AsyncClient, worker: Worker) -> None:
    assert (await admin.delete(f"/factories/{worker.id}")).status_code == 204
    assert (await admin.get(f"/factories/{worker.id}")).status_code == 404
    assert (await worker.beat()).status_code == 401


async def test_withdrawn_invitation_cannot_be_used(
    server: Server, admin: httpx.AsyncClient
) -> None:
    made = (await admin.post("/enrollments", json={"products": ["*"]})).json()
    listed = (await admin.get("/enrollments")).json()["enrollments"]
    shown = next(each for each in listed if each["id"] == made["id"])
    assert made["secret"] not in str(shown)
    assert (await admin.delete(f"/enrollments/{made['id']}")).status_code == 204
    async with server.client("", product=None) as anonymous:
        asked = {"secret": made["secret"], "factoryId": "late"}
        assert (await anonymous.post("/factories/enroll", json=asked)).status_code == 401


async def test_offer_arrives_on_the_stream_and_is_accepted_once(
    server: Server, admin: httpx.AsyncClient, worker: Worker
) -> None:
    async with open_stream(worker.http, f"/factories/{worker.id}/offers") as messages:
        assert (await anext(messages)).event is None
        job_id = await submit(admin, priority="high")
        offer = await anext(messages)
        assert offer.event == "offer"
        assert offer.data["jobId"] == job_id
        assert offer.data["targetFactoryId"] == worker.id
        assert (offer.data["priority"], offer.data["step"]) == ("high", "run")
        assert offer.data["expiresAt"].endswith("Z")
        accept = {"factoryId": worker.id, "jobId": job_id, "offerId": offer.data["offerId"]}
        granted = await worker.http.post("/accept", json=accept)
        assert (granted.status_code, granted.json()["leaseEpoch"]) == (200, 1)
        again = await worker.http.post("/accept", json=accept)
        assert (again.status_code, again.json()["code"]) == (409, "offer_gone")
        await admin.post(f"/jobs/{job_id}/actions/preempt", json={"reason": "urgent work"})
        command = await anext(messages)
        assert (command.event, command.data) == ("command", {"type": "preempt", "jobId": job_id})


async def test_declined_offer_cannot_be_accepted(
    server: Server, admin: httpx.AsyncClient, worker: Worker
) -> None:
    async with open_stream(worker.http, f"/factories/{worker.id}/offers") as messages:
        await anext(messages)
        job_id = await submit(admin)
        offer = (await anext(messages)).data
        asked = {"factoryId": worker.id, "jobId": job_id, "offerId": offer["offerId"]}
        declined = await worker.http.post("/accept", json=asked | {"decline": "disk is full"})
        assert (declined.status_code, declined.json()["stage"]) == (200, "queued")
        late = await worker.http.post("/accept", json=asked)
        assert late.json()["code"] == "offer_gone"


async def test_a_revoked_factory_loses_its_open_stream(
    admin: httpx.AsyncClient, worker: Worker
) -> None:
    async with open_stream(worker.http, f"/factories/{worker.id}/offers") as messages:
        await anext(messages)
        revoked = await admin.post(f"/factories/{worker.id}/token/revoke")
        assert revoked.json() == {"factoryId": worker.id}
        assert [message.event async for message in messages] == ["revoked"]
    assert (await worker.claim()).status_code == 401
