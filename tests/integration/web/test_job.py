"""The job page: log download, events, explanation, actions and defects."""

import hashlib
import re

import httpx

from gigafactory.domain.job.job import Stage
from gigafactory.domain.job.lifecycle import ACTIONS
from gigafactory.domain.tenancy.access import Role
from tests.support.api_server import Server, Worker
from tests.support.jobs_api import submit_job
from tests.support.web_session import Visitor, a_visitor, an_anonymous_browser

CHUNK = 1 << 20
CHUNKS = 24


async def test_large_log_is_streamed_as_a_file_and_the_page_shows_its_end(
    server: Server, ann: Visitor, admin: httpx.AsyncClient, worker: Worker
) -> None:
    job_id = (await submit_job(admin, {"manifest": {"name": "long"}, "body": "# Long"}))["id"]
    assert f'href="/jobs/{job_id}/log.txt" download' in await ann.page(f"/jobs/{job_id}")
    assert (await ann.http.get(f"/jobs/{job_id}/log.txt")).status_code == 404
    await worker.granted()
    whole = hashlib.sha256()
    for number in range(CHUNKS):
        piece = bytes([65 + number]) * (CHUNK - 1) + b"\n"
        where = {"leaseEpoch": 1, "offset": number * CHUNK}
        sent = await worker.http.post(f"/jobs/{job_id}/logs", params=where, content=piece)
        assert sent.status_code == 200, sent.text
        whole.update(piece)
    got, most = hashlib.sha256(), 0
    async with ann.http.stream("GET", f"/jobs/{job_id}/log.txt") as answer:
        assert answer.headers["content-disposition"] == f'attachment; filename="{job_id}.1.log"'
        assert answer.headers["content-type"].startswith("text/plain")
        async for piece in answer.aiter_raw():
            got.update(piece)
            most = max(most, len(piece))
    assert got.digest() == whole.digest()
    assert most <= 2 * CHUNK, "no more than a piece of it is in memory"
    async with ann.http.stream("GET", f"/live/jobs/{job_id}/log", params={"tail": 10}) as live:
        first = await anext(line async for line in live.aiter_lines() if line.startswith("data"))
    letter = chr(64 + CHUNKS)
    assert first == f'data: {{"offset":{CHUNKS * CHUNK - 10},"text":"{letter * 9}\\n"}}'
    async with an_anonymous_browser(server) as anonymous:
        assert (await anonymous.get(f"/jobs/{job_id}/log.txt")).status_code == 401


async def test_job_page_explains_placement_and_shows_events(
    ann: Visitor, admin: httpx.AsyncClient, worker: Worker
) -> None:
    document: dict[str, object] = {"manifest": {"name": "one"}, "body": "# One\n\nDo it *well*."}
    job_id = (await submit_job(admin, document))["id"]
    text = await ann.page(f"/jobs/{job_id}")
    assert ">Why not yet</h2>" in text
    assert "Do it *well*." in text[text.index('id="asked"') :]
    grant = await worker.granted()
    await worker.report(grant, stage="building")
    text = await ann.page(f"/jobs/{job_id}")
    assert ">Why here</h2>" in text
    assert (
        worker.id in text[text.index('id="why"') : text.index("</section>", text.index('id="why"'))]
    )
    result = text[text.index('class="timeline"') :]
    kinds = [
        result.index(f'<span class="kind">{kind}<') for kind in ("started", "assigned", "submitted")
    ]
    assert kinds == sorted(kinds), "the newest comes first"
    await worker.report(grant, stage="failed", result="crash", reason="the disk is full")
    text = await ann.page(f"/jobs/{job_id}")
    assert ">Outcome</h2>" in text
    assert "<p>the disk is full</p>" in text[text.index('class="timeline"') :]


async def test_job_page_has_only_the_actions_of_its_stage(
    ann: Visitor, admin: httpx.AsyncClient, worker: Worker
) -> None:
    document: dict[str, object] = {"manifest": {"name": "one", "ship": "none"}, "body": "# One"}
    place = f"/jobs/{(await submit_job(admin, document))['id']}"
    seen = set()

    async def has_its_buttons(stage: Stage) -> None:
        text = await ann.page(place)
        assert f'class="stage {stage}"' in text
        shown = re.findall(rf'formaction="{place}/actions/([a-z-]+)"', text)
        assert shown == [action for action, stages in ACTIONS.items() if stage in stages], stage
        seen.update(shown)

    await has_its_buttons(Stage.QUEUED)
    grant = await worker.granted()
    await has_its_buttons(Stage.ASSIGNED)
    await worker.report(grant, stage="building")
    await has_its_buttons(Stage.BUILDING)
    await worker.report(grant, stage="review", result="ok")
    await has_its_buttons(Stage.REVIEW)
    await ann.send(f"{place}/actions/approve")
    await has_its_buttons(Stage.TESTING)
    await ann.send(f"{place}/actions/reject", reason="no")
    await has_its_buttons(Stage.FAILED)
    await ann.send(f"{place}/actions/requeue")
    await ann.send(f"{place}/actions/cancel")
    await has_its_buttons(Stage.CANCELLED)
    assert seen == ACTIONS.keys()


async def test_reported_defect_counts_as_escaped(
    server: Server, ann: Visitor, admin: httpx.AsyncClient, worker: Worker
) -> None:
    document: dict[str, object] = {"manifest": {"name": "one", "ship": "none"}, "body": "# One"}
    place = f"/jobs/{(await submit_job(admin, document))['id']}"
    assert "Report a defect" not in await ann.page(place)
    grant = await worker.granted()
    await worker.report(grant, stage="building")
    await worker.report(grant, stage="review", result="ok")
    for action in ("approve", "ship"):
        assert (await ann.send(f"{place}/actions/{action}")).status_code == 303
    assert "Report a defect" in await ann.page(place)
    assert (await ann.send(f"{place}/defects", words="")).status_code == 422
    assert (await ann.send(f"{place}/defects", words="it is <b>too</b> short")).status_code == 303
    assert "it is &lt;b&gt;too&lt;/b&gt; short" in await ann.page(place)
    async with a_visitor(server, "vera", Role.VIEWER) as vera:
        assert "Report a defect" not in await vera.page(place)
        assert (await vera.send(f"{place}/defects", words="no")).status_code == 403
    await server.coordinator.leadership.acquire()
    await server.coordinator.index.catch_up()
    await server.coordinator.tallier.step()
    text = await ann.page("/insights")
    assert "<small>1 escaped</small>" in text
    assert "1 of 1 failed, of the last 30 days" in text
