"""Shipping through a stateful GitHub emulator: pull requests, checks and merges."""

import json
from collections.abc import Sequence

import httpx
import pytest

from gigafactory.domain.job.job import Result
from gigafactory.factory.core.stop import StopReason
from gigafactory.factory.forges.forge import PullRequest, PullRequestText
from gigafactory.factory.forges.registry import Forges
from gigafactory.factory.phases.ship import ship
from gigafactory.factory.phases.ship_pull_request import PullRequestShipping
from gigafactory.factory.run.active_run import ActiveRun
from tests.services.emulate import STRANGER
from tests.support.factory.github_repo import (
    BRANCH,
    NO_POLLING,
    GitHubRepo,
    Interrupted,
    RecordingTransport,
    ShippingRuns,
    forges,
)

pytestmark = pytest.mark.service

OPEN, MERGE, COMMENT = "POST pulls", "PUT merge", "POST comments"


async def propose(run: ActiveRun, known: Forges, commit: str, words: PullRequestText) -> None:
    at = known.forge_for(run.equipment.repos.address("notes"))
    assert at is not None
    async with at as forge:
        shipping = PullRequestShipping(run, forge, branch=BRANCH, base="main", commit=commit)
        assert isinstance(await shipping.propose(words), PullRequest)


async def test_a_pull_request_is_opened_once_and_merged_once(
    hub: GitHubRepo, work: str, desk: ShippingRuns
) -> None:
    wire = RecordingTransport()
    run, reporter = desk.run(forges(hub, wire), commit=work)
    assert await ship(run) is None
    [pull] = await hub.pulls()
    assert (pull["title"], pull["head"]["sha"]) == ("Say hello", work)
    assert pull["body"] == "Say hello.\n\n<!-- aq:job-1:job-1.2 -->"
    assert pull["merged_at"] is not None
    assert await hub.commit_of("main") == pull["merge_commit_sha"]
    assert wire.changes == [OPEN, MERGE]
    assert reporter.intents == ["opens", "merges"]
    successor, said = desk.run(forges(hub, wire), commit=work, run_id="job-1.3")
    assert await ship(successor) is None
    assert (wire.changes, said.reports) == ([OPEN, MERGE], [])


@pytest.mark.parametrize("effect", [1, 2])
async def test_interrupted_ship_is_finished_without_repeating_an_effect(
    hub: GitHubRepo, work: str, desk: ShippingRuns, effect: int
) -> None:
    cut = RecordingTransport(breaks_after=effect)
    run, reporter = desk.run(forges(hub, cut), commit=work)
    with pytest.raises(Interrupted):
        await ship(run)
    assert len(reporter.intents) == effect, "what was about to be done is on record"
    wire = RecordingTransport()
    successor, _ = desk.run(forges(hub, wire), commit=work, run_id="job-1.3")
    assert await ship(successor) is None
    assert cut.changes + wire.changes == [OPEN, MERGE]
    assert [pull["state"] for pull in await hub.pulls()] == ["closed"]


@pytest.mark.parametrize("style", ["squash", "merge"])
async def test_merge_style_of_the_job_decides_the_merge_commit(
    hub: GitHubRepo, work: str, desk: ShippingRuns, style: str
) -> None:
    before = await hub.commit_of("main")
    run, _ = desk.run(forges(hub), commit=work, merge_style=style)
    assert await ship(run) is None
    landed = await hub.ask("GET", f"{hub.url}/git/commits/{await hub.commit_of('main')}")
    parents = [parent["sha"] for parent in landed["parents"]]
    assert parents == ([before] if style == "squash" else [before, work])
    assert landed["message"] == "Say hello (#1)\n\nAq-Job: job-1"


async def test_fast_forward_moves_the_base_to_the_exact_commit(
    hub: GitHubRepo, work: str, desk: ShippingRuns
) -> None:
    run, _ = desk.run(forges(hub), commit=work, merge_style="ff")
    assert await ship(run) is None
    assert await hub.commit_of("main") == work


async def test_fast_forward_of_a_diverged_base_is_a_merge_conflict(
    hub: GitHubRepo, work: str, desk: ShippingRuns
) -> None:
    moved = await hub.push("main")
    run, _ = desk.run(forges(hub), commit=work, merge_style="ff")
    outcome = await ship(run)
    assert outcome is not None
    assert (outcome.result, "merge-style ff" in outcome.reason) == (Result.MERGE_CONFLICT, True)
    assert await hub.commit_of("main") == moved


async def test_commit_already_in_the_base_ships_without_a_pull_request(
    hub: GitHubRepo, work: str, desk: ShippingRuns
) -> None:
    await hub.ask("PATCH", f"{hub.url}/git/refs/heads/main", {"sha": work})
    wire = RecordingTransport()
    run, _ = desk.run(forges(hub, wire), commit=work)
    assert await ship(run) is None
    assert (wire.changes, await hub.pulls()) == ([], [])


async def test_merge_waits_until_pending_checks_pass(
    hub: GitHubRepo, work: str, desk: ShippingRuns
) -> None:
    await hub.require("build", "lint")
    await hub.check(work, "build", None)

    class Turning(RecordingTransport):
        """A transport that lets checks pass while they are read."""

        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            answer = await super().handle_async_request(request)
            if request.url.path.endswith("/check-runs") and len(self.looks) < 2:
                name = ("build", "lint")[len(self.looks)]
                self.looks.append(name)
                await hub.check(work, name, "success")
            return answer

        looks: list[str]

    wire = Turning()
    wire.looks = []
    run, _ = desk.run(forges(hub, wire), commit=work)
    assert await ship(run) is None
    assert wire.changes == [OPEN, MERGE]
    assert wire.looks == ["build", "lint"]


async def test_checks_that_stay_pending_time_out_and_are_named(
    hub: GitHubRepo, work: str, desk: ShippingRuns
) -> None:
    await hub.require("build")
    wire = RecordingTransport()
    run, _ = desk.run(forges(hub, wire, pace=NO_POLLING), commit=work)
    outcome = await ship(run)
    assert outcome is not None
    assert (outcome.result, "pending: build" in outcome.reason) == (Result.TIMEOUT, True)
    assert wire.changes == [OPEN]


@pytest.mark.parametrize("conclusion", ["failure", "cancelled", "timed_out", "action_required"])
async def test_failed_check_ends_the_ship_without_a_merge(
    hub: GitHubRepo, work: str, desk: ShippingRuns, conclusion: str
) -> None:
    before = await hub.commit_of("main")
    await hub.require("build", "lint")
    await hub.check(work, "build", conclusion)
    run, _ = desk.run(forges(hub), commit=work)
    outcome = await ship(run)
    assert outcome is not None
    assert (outcome.result, "red: build;" in outcome.reason) == (Result.VERIFY_FAILED, True)
    assert await hub.commit_of("main") == before


async def test_ship_pr_completes_when_the_pull_request_is_open(
    hub: GitHubRepo, work: str, desk: ShippingRuns
) -> None:
    wire = RecordingTransport()
    run, _ = desk.run(forges(hub, wire), commit=work, ship="pr")
    assert await ship(run) is None
    assert [pull["state"] for pull in await hub.pulls()] == ["open"]
    again, _ = desk.run(forges(hub, wire), commit=work, ship="pr")
    assert await ship(again) is None
    assert wire.changes == [OPEN]


async def test_ship_pr_with_wait_merge_is_released_until_people_merge(
    hub: GitHubRepo, work: str, desk: ShippingRuns
) -> None:
    hurried = forges(hub, pace=NO_POLLING)
    run, _ = desk.run(hurried, commit=work, ship="pr", wait_merge=True)
    outcome = await ship(run)
    assert outcome is not None
    assert (outcome.result, "waits to be merged" in outcome.reason) == (Result.RELEASED, True)
    await hub.ask("PUT", f"{hub.url}/pulls/1/merge", {})
    successor, _ = desk.run(hurried, commit=work, ship="pr", wait_merge=True)
    assert await ship(successor) is None


async def test_pull_request_closed_by_people_is_not_reopened(
    hub: GitHubRepo, work: str, desk: ShippingRuns
) -> None:
    run, _ = desk.run(forges(hub), commit=work, ship="pr")
    assert await ship(run) is None
    await hub.ask("PATCH", f"{hub.url}/pulls/1", {"state": "closed"})
    wire = RecordingTransport()
    successor, _ = desk.run(forges(hub, wire), commit=work)
    outcome = await ship(successor)
    assert outcome is not None
    assert (outcome.result, "was closed" in outcome.reason) == (Result.MERGE_CONFLICT, True)
    assert wire.changes == []


async def test_branch_with_a_different_commit_than_approved_is_not_merged(
    hub: GitHubRepo, work: str, desk: ShippingRuns
) -> None:
    newer = await hub.push(BRANCH)
    run, _ = desk.run(forges(hub), commit=newer, ship="pr")
    assert await ship(run) is None
    wire = RecordingTransport()
    successor, _ = desk.run(forges(hub, wire), commit=work)
    outcome = await ship(successor)
    assert outcome is not None
    assert outcome.result is Result.MERGE_CONFLICT
    assert newer[:12] in outcome.reason
    assert work[:12] in outcome.reason
    assert wire.changes == []
    stands = successor.findings.checkpoint
    assert stands is not None
    assert (stands.branch, stands.commit) == (BRANCH, newer), "it is decided on next"
    assert successor.findings.edited_lines is None, "what was not counted is not made up"


async def test_pull_request_merged_by_people_with_later_commits_is_shipped(
    hub: GitHubRepo, work: str, desk: ShippingRuns
) -> None:
    newer = await hub.push(BRANCH)
    run, _ = desk.run(forges(hub), commit=newer, ship="pr")
    assert await ship(run) is None
    assert run.findings.edited_lines == 0, "the approved commit is unchanged"
    await hub.ask("PUT", f"{hub.url}/pulls/1/merge", {"merge_method": "squash"})
    wire = RecordingTransport()
    successor, _ = desk.run(forges(hub, wire), commit=work, ship="pr", wait_merge=True)
    assert await ship(successor) is None
    assert wire.changes == [], "nothing is opened or merged a second time"
    assert successor.findings.checkpoint is None
    assert successor.findings.edited_lines is None


async def test_later_run_comments_once_on_the_open_pull_request(
    hub: GitHubRepo, work: str, desk: ShippingRuns
) -> None:
    wire = RecordingTransport()
    known = forges(hub, wire)
    first, _ = desk.run(known, commit=work, run_id="job-1.1")
    await propose(first, known, work, PullRequestText("Say hello", "As asked."))
    await propose(first, known, work, PullRequestText("Say hello", "As asked."))
    assert wire.changes == [OPEN], "the factory that opened it does not comment on it"
    newer = await hub.push(BRANCH)
    for _ in range(2):
        later, _ = desk.run(known, commit=newer, run_id="job-1.2")
        await propose(later, known, newer, PullRequestText("Say it louder", "As asked."))
    assert wire.changes == [OPEN, COMMENT]
    assert await hub.comments(1) == [
        f"{newer[:12]} is new here: Say it louder\n\n<!-- aq:job-1:job-1.2 -->"
    ]


async def test_comment_with_a_lost_response_is_not_repeated(
    hub: GitHubRepo, work: str, desk: ShippingRuns
) -> None:
    known = forges(hub)
    first, _ = desk.run(known, commit=work, run_id="job-1.1")
    await propose(first, known, work, PullRequestText("Say hello", ""))
    cut, wire = RecordingTransport(breaks_after=1), RecordingTransport()
    later, _ = desk.run(forges(hub, cut), commit=work)
    with pytest.raises(Interrupted):
        await propose(later, forges(hub, cut), work, PullRequestText("Say it louder", ""))
    await propose(later, forges(hub, wire), work, PullRequestText("Say it louder", ""))
    assert (cut.changes, wire.changes) == ([COMMENT], [])


async def test_drained_factory_stops_waiting_for_checks(
    hub: GitHubRepo, work: str, desk: ShippingRuns
) -> None:
    await hub.require("build")
    run, _ = desk.run(forges(hub), commit=work)
    run.stop.request(StopReason.DRAINED, "the factory is drained")
    outcome = await ship(run)
    assert outcome is not None
    assert outcome.result is Result.RELEASED


async def test_token_without_access_fails_with_a_reason_and_is_never_shown(
    hub: GitHubRepo, work: str, desk: ShippingRuns, capfd: pytest.CaptureFixture[str]
) -> None:
    await hub.ask("PATCH", hub.url, {"private": True})
    run, _ = desk.run(forges(hub, token=STRANGER), commit=work)
    outcome = await ship(run)
    desk.close()
    assert outcome is not None
    assert outcome.result is Result.SETUP_FAILED
    assert f"{hub.name} on 127.0.0.1" in outcome.reason
    result = outcome.reason + run.log.read(0).decode() + "".join(capfd.readouterr())
    assert STRANGER not in result


async def test_unreachable_forge_releases_the_job(
    hub: GitHubRepo, work: str, desk: ShippingRuns
) -> None:
    class Cut(RecordingTransport):
        """A transport without a network."""

        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            raise httpx.ConnectError("no route to host", request=request)

    run, _ = desk.run(forges(hub, Cut()), commit=work, base="main")
    outcome = await ship(run)
    assert outcome is not None
    assert (outcome.result, "cannot be reached" in outcome.reason) == (Result.OVERLOADED, True)


async def test_change_with_a_lost_response_is_looked_up_before_a_retry(
    hub: GitHubRepo, work: str, desk: ShippingRuns
) -> None:
    class Lossy(RecordingTransport):
        """A transport that sends every change and loses the response."""

        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            answer = await super().handle_async_request(request)
            if request.method != "GET":
                raise httpx.ReadTimeout("no answer", request=request)
            return answer

    wire = Lossy()
    run, _ = desk.run(forges(hub, wire), commit=work)
    assert await ship(run) is None
    assert wire.changes == [OPEN, MERGE]


class Unsure(RecordingTransport):
    """A transport whose forge needs time to compute whether a pull request is mergeable."""

    def __init__(self, found: Sequence[bool | None]) -> None:
        super().__init__()
        self._found = list(found)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        answer = await super().handle_async_request(request)
        if request.method != "GET" or not request.url.path.endswith("/pulls/1") or not self._found:
            return answer
        data = json.loads(await answer.aread())
        return httpx.Response(200, json=data | {"mergeable": self._found.pop(0)})


async def test_unknown_mergeability_is_polled_until_known(
    hub: GitHubRepo, work: str, desk: ShippingRuns
) -> None:
    opening, _ = desk.run(forges(hub), commit=work, ship="pr")
    assert await ship(opening) is None
    wire = Unsure([None, None, True])
    run, _ = desk.run(forges(hub, wire), commit=work)
    assert await ship(run) is None
    looks = [request for request in wire.requests if request.url.path.endswith("/pulls/1")]
    assert (len(looks), wire.changes) == (3, [MERGE])


async def test_unmergeable_pull_request_is_a_conflict_and_is_not_merged(
    hub: GitHubRepo, work: str, desk: ShippingRuns
) -> None:
    opening, _ = desk.run(forges(hub), commit=work, ship="pr")
    assert await ship(opening) is None
    wire = Unsure([None, False])
    run, _ = desk.run(forges(hub, wire), commit=work)
    outcome = await ship(run)
    assert outcome is not None
    assert (outcome.result, "by hand" in outcome.reason) == (Result.MERGE_CONFLICT, True)
    assert wire.changes == []
