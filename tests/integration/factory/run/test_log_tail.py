"""The unsent rest of a log is delivered before the report that ends its run."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest_asyncio

from gigafactory.client.transport.async_client import AsyncClient
from gigafactory.factory.core.data_dir import DataDir
from gigafactory.factory.reporting.outbox import Outbox
from gigafactory.factory.reporting.outbox_sender import OutboxSender
from gigafactory.system.file_chunks import CHUNK_BYTES_MAX
from tests.support.api_server import Server, Worker, a_server, a_worker

ENDED = {"stage": "testing", "result": "ok", "verify": {"passed": True}}


class Left:
    """The files of a stopped factory and its unfinished run."""

    def __init__(self, data_dir: DataDir, server: Server, people: httpx.AsyncClient) -> None:
        self.data_dir = data_dir
        self._server = server
        self.people = people
        self.worker: Worker
        self.job_id = ""
        self.run_id = ""

    async def begin(self, worker: Worker) -> None:
        """Submit a job and start its run on a worker."""
        self.worker = worker
        asked = {"manifest": {"name": "a", "verify": "true"}, "body": "Do it."}
        self.job_id = (await self.people.post("/jobs", json=asked)).json()["id"]
        grant = await worker.granted()
        self.run_id = grant["runId"]
        assert (await worker.report(grant, stage="building")).status_code == 200

    @asynccontextmanager
    async def courier(self) -> AsyncIterator[OutboxSender]:
        """Yield the outbox sender of a restarted factory."""
        token = self.worker.http.headers["authorization"].removeprefix("Bearer ")
        async with AsyncClient(self._server.url, token) as client:
            yield OutboxSender(Outbox(self.data_dir.outbox), client, lambda *_: None, self.data_dir)

    def write_log(self, text: str) -> None:
        """Write the log file of the run."""
        file = self.data_dir.log_file(self.run_id)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    async def log(self) -> str:
        """Return the log from the API."""
        return (await self.people.get(f"/jobs/{self.job_id}/logs")).text


@pytest_asyncio.fixture
async def left(tmp_path: Path) -> AsyncIterator[Left]:
    data_dir = DataDir.under(tmp_path / "disk")
    data_dir.create()
    async with (
        a_server(tmp_path / "coordinator") as server,
        server.client() as people,
        a_worker(server) as worker,
    ):
        made = Left(data_dir, server, people)
        await made.begin(worker)
        yield made


async def test_restarted_factory_sends_the_rest_of_a_log_before_its_report(left: Left) -> None:
    text = "x" * (2 * CHUNK_BYTES_MAX) + "\nthe end\n"
    sent = text[: CHUNK_BYTES_MAX + 7].encode()
    where = f"/jobs/{left.job_id}/logs?leaseEpoch=1&offset=0"
    assert (await left.worker.http.post(where, content=sent)).status_code == 200
    left.write_log(text)
    Outbox(left.data_dir.outbox).put(left.job_id, 1, ENDED, last=True, log=left.run_id)
    async with left.courier() as courier:
        await courier.deliver_pending()
    assert await left.log() == text
    job = (await left.people.get(f"/jobs/{left.job_id}")).json()
    assert (job["stage"], job["result"]) == ("testing", "ok")


async def test_missing_log_file_does_not_block_the_report(left: Left) -> None:
    Outbox(left.data_dir.outbox).put(left.job_id, 1, ENDED, last=True, log=left.run_id)
    async with left.courier() as courier:
        await courier.deliver_pending()
    assert (await left.people.get(f"/jobs/{left.job_id}")).json()["stage"] == "testing"


async def test_fenced_run_appends_nothing_to_the_log(left: Left) -> None:
    await left.people.post(f"/jobs/{left.job_id}/actions/cancel", json={})
    left.write_log("late words\n")
    Outbox(left.data_dir.outbox).put(left.job_id, 1, ENDED, last=True, log=left.run_id)
    async with left.courier() as courier:
        await courier.deliver_pending()
    assert await left.log() == ""
    assert Outbox(left.data_dir.outbox).pending() == []
    assert (await left.people.get(f"/jobs/{left.job_id}")).json()["stage"] == "cancelled"
