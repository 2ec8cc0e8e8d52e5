"""Reports for an unreachable coordinator: kept in order, with only the newest usage of a run."""

from pathlib import Path
from typing import Any

import pytest

from gigafactory.client.transport.async_client import AsyncClient
from gigafactory.domain.errors import Unavailable
from gigafactory.factory.core.data_dir import DataDir
from gigafactory.factory.reporting.outbox import Outbox
from gigafactory.factory.reporting.outbox_sender import OutboxSender
from tests.services.answering import answer, answering


def usage(tokens: int) -> dict[str, Any]:
    return {"usage": {"tokensIn": tokens}}


class Desk:
    """A sender and its outbox."""

    # No server listens at this address.
    def __init__(self, folder: Path, url: str = "http://127.0.0.1:1") -> None:
        data_dir = DataDir.under(folder)
        self._outbox = Outbox(data_dir.outbox)
        self.client = AsyncClient(url, "no-token")
        self.courier = OutboxSender(self._outbox, self.client, lambda *_: None, data_dir)

    @property
    def pending(self) -> list[tuple[str, int, dict[str, Any]]]:
        letters = [self._outbox.read(place) for place in self._outbox.pending()]
        return [(letter.job_id, letter.epoch, letter.fields) for letter in letters]


def test_only_the_newest_usage_report_of_a_run_is_kept(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.courier.send("job-1", 1, {"stage": "building"})
    for tokens in range(50):
        desk.courier.send("job-1", 1, usage(tokens))
        desk.courier.send("job-2", 1, usage(tokens))
    desk.courier.send("job-1", 2, usage(7))
    assert desk.pending == [
        ("job-1", 1, {"stage": "building"}),
        ("job-1", 1, usage(49)),
        ("job-2", 1, usage(49)),
        ("job-1", 2, usage(7)),
    ]


def test_other_reports_are_kept_whole_and_in_order(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    saved, ended = {"checkpoint": {"commit": "c"}}, {"stage": "testing", **usage(9)}
    desk.courier.send("job-1", 1, usage(1))
    desk.courier.send("job-1", 1, saved)
    desk.courier.send("job-1", 1, usage(2))
    desk.courier.send("job-1", 1, saved)
    desk.courier.send("job-1", 1, ended, last=True)
    assert [result for _, _, result in desk.pending] == [saved, saved, ended]


async def test_undelivered_report_stays_in_the_outbox(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.courier.send("job-1", 1, usage(1))
    async with desk.client:
        with pytest.raises(Unavailable):
            await desk.courier.deliver_pending()
    assert len(desk.pending) == 1


@pytest.mark.parametrize(
    "reply",
    [
        answer(b'{"code": "internal", "title": "Internal error"}', "500 Internal Server Error"),
        answer(b"<html>oops</html>", "502 Bad Gateway"),
        answer(b"", "599 Of A Proxy"),
        answer(b"", "425 Too Early"),
        answer(b"<html>log in first</html>"),
        answer(b"<html>no such page</html>", "404 Not Found"),
        answer(b"<html>forbidden by policy</html>", "403 Forbidden"),
        answer(b"<html>too large</html>", "413 Payload Too Large"),
        answer(b"{}", "409 Conflict"),
    ],
)
async def test_results_stay_when_the_server_or_a_proxy_fails(tmp_path: Path, reply: bytes) -> None:
    with answering(reply) as failing:
        desk = Desk(tmp_path, failing.url)
        desk.courier.send("job-1", 1, {"checkpoint": {"commit": "c"}})
        desk.courier.send("job-1", 1, {"stage": "testing"}, last=True)
        desk.courier.send("job-2", 1, {"stage": "testing"}, last=True)
        async with desk.client:
            with pytest.raises(Unavailable):
                await desk.courier.deliver_pending()
        asked = [head.split(" ")[1] for head in failing.heard()]
    assert len(desk.pending) == 3
    assert asked == ["/api/fleet/jobs/job-1", "/api/fleet/jobs/job-2"]


async def test_a_run_whose_report_is_refused_ends_with_the_reason(tmp_path: Path) -> None:
    problem = b'{"code": "invalid", "detail": "usage.model: too long"}'
    with answering(answer(problem, "422 Unprocessable Content")) as refusing:
        desk = Desk(tmp_path, refusing.url)
        desk.courier.send("job-1", 1, {"checkpoint": {"commit": "c"}})
        desk.courier.send("job-1", 1, {"stage": "testing", **usage(9)}, last=True)
        async with desk.client:
            await desk.courier.deliver_pending()
            [(job, epoch, outcome)] = desk.pending
            assert (job, epoch, outcome["stage"], outcome["result"]) == (
                "job-1",
                1,
                "failed",
                "crash",
            )
            assert "usage.model: too long" in outcome["reason"]
            await desk.courier.deliver_pending()
    assert desk.pending == []
