"""Shipping through GitHub, against one that keeps state: what is opened, checked and merged."""

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
async def test_a_ship_that_is_cut_off_after_an_effect_is_finished_without_repeating_it(
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
async def test_the_style_of_the_merge_is_the_jobs(
    hub: GitHubRepo, work: str, desk: ShippingRuns, style: str
) -> None:
    before = await hub.commit_of("main")
    run, _ = desk.run(forges(hub), commit=work, merge_style=style)
    assert await ship(run) is None
    landed = await hub.ask("GET", f"{hub.url}/git/commits/{await hub.commit_of('main')}")
    parents = [parent["sha"] for parent in landed["parents"]]
    assert parents == ([before] if style == "squash" else [before, work])
    assert landed["message"] == "Say hello (#1)\n\nAq-Job: job-1"


async def test_a_fast_forward_moves_the_base_to_the_very_commit(
    hub: GitHubRepo, work: str, desk: ShippingRuns
) -> None:
    run, _ = desk.run(forges(hub), commit=work, merge_style="ff")
    assert await ship(run) is None
    assert await hub.commit_of("main") == work


async def test_a_base_that_has_moved_on_cannot_be_fast_forwarded(
    hub: GitHubRepo, work: str, desk: ShippingRuns
) -> None:
    moved = await hub.push("main")
    run, _ = desk.run(forges(hub), commit=work, merge_style="ff")
    outcome = await ship(run)
    assert outcome is not None
    assert (outcome.result, "merge-style ff" in outcome.reason) == (Result.MERGE_CONFLICT, True)
    assert await hub.commit_of("main") == moved


async def test_what_is_in_the_base_already_is_shipped_without_a_pull_request(
    hub: GitHubRepo, work: str, desk: ShippingRuns
) -> None:
    await hub.ask("PATCH", f"{hub.url}/git/refs/heads/main", {"sha": work})
    wire = RecordingTransport()
    run, _ = desk.run(forges(hub, wire), commit=work)
    assert await ship(run) is None
    assert (wire.changes, await hub.pulls()) == ([], [])


async def test_pending_checks_are_waited_for_and_then_it_is_merged(
    hub: GitHubRepo, work: str, desk: ShippingRuns
) -> None:
    await hub.require("build", "lint")
    await hub.check(work, "build", None)

    class Turning(RecordingTransport):
        """The checks turn green while they are being read."""

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


async def test_checks_that_stay_pending_end_the_wait_with_their_names(
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
async def test_a_red_check_ends_the_ship_and_nothing_is_merged(
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


async def test_ship_pr_is_done_when_the_pull_request_is_open(
    hub: GitHubRepo, work: str, desk: ShippingRuns
) -> None:
    wire = RecordingTransport()
    run, _ = desk.run(forges(hub, wire), commit=work, ship="pr")
    assert await ship(run) is None
    assert [pull["state"] for pull in await hub.pulls()] == ["open"]
    again, _ = desk.run(forges(hub, wire), commit=work, ship="pr")
    assert await ship(again) is None
    assert wire.changes == [OPEN]


async def test_ship_pr_with_wait_merge_waits_for_people_and_is_handed_on_meanwhile(
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


async def test_a_pull_request_that_people_closed_is_not_opened_again(
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


async def test_a_branch_that_is_not_what_was_decided_on_is_not_merged(
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


async def test_what_people_merged_with_more_than_was_decided_on_is_shipped(
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


async def test_a_later_run_says_once_below_the_pull_request_what_is_new(
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


async def test_a_comment_whose_answer_was_lost_is_not_said_again(
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


async def test_a_wait_ends_when_the_factory_is_drained(
    hub: GitHubRepo, work: str, desk: ShippingRuns
) -> None:
    await hub.require("build")
    run, _ = desk.run(forges(hub), commit=work)
    run.stop.request(StopReason.DRAINED, "the factory is drained")
    outcome = await ship(run)
    assert outcome is not None
    assert outcome.result is Result.RELEASED


async def test_a_token_that_may_not_see_the_repo_ends_with_a_sentence_and_is_never_shown(
    hub: GitHubRepo, work: str, desk: ShippingRuns, capfd: pytest.CaptureFixture[str]
) -> None:
    await hub.ask("PATCH", hub.url, {"private": True})
    run, _ = desk.run(forges(hub, token=STRANGER), commit=work)
    outcome = await ship(run)
    desk.close()
    assert outcome is not None
    assert outcome.result is Result.SETUP_FAILED
    assert f"{hub.name} on 127.0.0.1" in outcome.reason
    told = outcome.reason + run.log.read(0).decode() + "".join(capfd.readouterr())
    assert STRANGER not in told


async def test_a_forge_that_cannot_be_reached_hands_the_job_back(
    hub: GitHubRepo, work: str, desk: ShippingRuns
) -> None:
    class Cut(RecordingTransport):
        """A network that is down."""

        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            raise httpx.ConnectError("no route to host", request=request)

    run, _ = desk.run(forges(hub, Cut()), commit=work, base="main")
    outcome = await ship(run)
    assert outcome is not None
    assert (outcome.result, "cannot be reached" in outcome.reason) == (Result.OVERLOADED, True)


async def test_an_answer_that_was_lost_is_looked_for_before_anything_is_repeated(
    hub: GitHubRepo, work: str, desk: ShippingRuns
) -> None:
    class Lossy(RecordingTransport):
        """Takes every change through, and loses its answer."""

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
    """The forge needs some time to find out whether a pull request can be merged."""

    def __init__(self, found: Sequence[bool | None]) -> None:
        super().__init__()
        self._found = list(found)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        answer = await super().handle_async_request(request)
        if request.method != "GET" or not request.url.path.endswith("/pulls/1") or not self._found:
            return answer
        told = json.loads(await answer.aread())
        return httpx.Response(200, json=told | {"mergeable": self._found.pop(0)})


async def test_what_the_forge_has_not_found_out_yet_is_looked_at_again(
    hub: GitHubRepo, work: str, desk: ShippingRuns
) -> None:
    opening, _ = desk.run(forges(hub), commit=work, ship="pr")
    assert await ship(opening) is None
    wire = Unsure([None, None, True])
    run, _ = desk.run(forges(hub, wire), commit=work)
    assert await ship(run) is None
    looks = [request for request in wire.requests if request.url.path.endswith("/pulls/1")]
    assert (len(looks), wire.changes) == (3, [MERGE])


async def test_a_conflict_is_told_and_nothing_is_tried(
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
