"""Ticket updates: metrics and links of a job, in order, each sent once."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gigafactory.domain.job import event_types
from gigafactory.domain.job.job import Event, Job, Result, Stage
from gigafactory.domain.job.run import Run, Usage
from gigafactory.domain.tracker.ticket import Ticket
from gigafactory.domain.tracker.ticket_update import (
    INTENT_TTL,
    FeedCursor,
    TicketCursor,
    TicketUpdate,
    advance,
    cursor_prefix,
    labels_after,
    new_cursor,
    next_update,
    release_intent,
    reopen,
    seq_before_latest_stage,
    status_after,
    with_intent,
)
from tests.support.builders import NOON, a_checkpoint, a_job, a_run, after

PROMPT = "Fix the login; the password of the test user is hunter2."
ITEM = Ticket(id="7", title="Fix the login", labels=("agent:run", "fleet:queued"))


def a_story(*stages: Stage | tuple[Stage, dict[str, object]]) -> list[Event]:
    told_of = [each if isinstance(each, tuple) else (each, {}) for each in stages]
    return [
        Event(
            type=stage,
            at=NOON,
            actor="factory:mac-1",
            product_id="notes",
            job_id="job-1",
            seq=seq,
            stage=stage,
            data=dict(data),
        )
        for seq, (stage, data) in enumerate(told_of, 1)
    ]


def a_ticket_job(**fields: object) -> Job:
    return a_job(tracker_item="7", title=PROMPT, reason=PROMPT, **fields)


def echoes(
    events: Sequence[Event], job: Job | None = None, runs: Sequence[Run] = ()
) -> list[TicketUpdate]:
    job = job or a_ticket_job()
    trail = new_cursor(job, seq=0)
    said = []
    while (echo := next_update(trail, job, events, runs)) is not None:
        said.append(echo)
        trail = advance(trail, echo, now=NOON)
    return said


def texts(said: Sequence[TicketUpdate]) -> list[str]:
    return [(each.text or "").split("\n")[0] for each in said]


def test_new_job_puts_its_ticket_in_progress_without_a_comment() -> None:
    [echo] = echoes(a_story(Stage.QUEUED))
    assert echo == TicketUpdate(seq=1, stage=Stage.QUEUED, status="in_progress")
    assert labels_after(ITEM, replace(echo, stage=Stage.BLOCKED)) == ("agent:run", "fleet:blocked")


def test_ticket_updates_follow_the_stages_in_order_and_skip_silent_ones() -> None:
    data: dict[str, object] = {"factoryId": "mac-1", "engine": "claude"}
    started = (Stage.BUILDING, data)
    story = a_story(
        Stage.QUEUED,
        Stage.ASSIGNED,
        started,
        Stage.BUILDING,
        Stage.REVIEW,
        Stage.TESTING,
        (Stage.TESTING, {"note": "merges https://git.example.com/a/b/pull/7 at abc into main"}),
        (Stage.SHIPPED, {"commit": "0123456789abcdef"}),
    )
    said = echoes(story, a_ticket_job(stage=Stage.SHIPPED, verified=True, result=Result.OK))
    assert [each.stage for each in said] == ["building", "review", "testing", "shipped"]
    assert [each.status for each in said] == ["in_progress"] * 3 + ["done"]
    assert texts(said)[0] == "Started on factory mac-1 with claude."
    assert said[-1].text == (
        "Shipped.\n- commit `0123456789ab`\n- pull request https://git.example.com/a/b/pull/7\n"
        "- verify passed\n- job `fix-login` (job-1)"
    )


def test_start_without_details_is_commented() -> None:
    [echo] = echoes(a_story(Stage.BUILDING))
    assert texts([echo]) == ["Started."]


@pytest.mark.parametrize("stage", [Stage.FAILED, Stage.DEAD_LETTER])
def test_failed_job_stays_in_progress_and_needs_triage(stage: Stage) -> None:
    story = a_story(Stage.BUILDING, (stage, {"result": "verify_failed"}))
    said = echoes(story, a_ticket_job(verified=False, checkpoint=a_checkpoint("abc")))
    assert (said[-1].status, said[-1].triage) == ("in_progress", True)
    assert "Failed (verify_failed)." in (said[-1].text or "")
    assert "- commit `abc`\n- verify did not pass" in (said[-1].text or "")
    assert labels_after(ITEM, said[-1]) == ("agent:run", f"fleet:{stage}", "needs-triage")


def test_cancelled_job_leaves_the_ticket_status_to_people() -> None:
    [echo] = echoes(a_story((Stage.CANCELLED, {})))
    assert (echo.status, echo.triage) == (None, True)


def test_requeued_job_no_longer_needs_triage() -> None:
    said = echoes(a_story((Stage.FAILED, {}), Stage.QUEUED))
    assert [each.triage for each in said] == [True, False]
    waiting = replace(ITEM, labels=("needs-triage", "fleet:failed"))
    assert labels_after(waiting, said[-1]) == ("fleet:queued",)


def test_superseded_job_posts_no_cancellation_to_its_ticket() -> None:
    story = a_story(Stage.QUEUED, Stage.CANCELLED)
    job = a_ticket_job(stage=Stage.CANCELLED, superseded_by="job-2")
    assert [each.stage for each in echoes(story, job)] == ["queued"]


def test_ticket_update_reports_usage_and_never_a_prompt() -> None:
    usage = Usage(tokens_in=1000, tokens_out=500, cost_nano_usd=250_000_000)
    run = a_run(usage=usage, wall_sec=61.4, reason=PROMPT)
    story = a_story(Stage.REVIEW, (Stage.FAILED, {"reason": PROMPT}))
    job = a_ticket_job()
    said = echoes(story, job, [run, replace(run, usage=None, wall_sec=None)])
    assert "- 2 runs, 1m1s, 1,500 tokens, 0.25 USD" in (said[0].text or "")
    assert all(PROMPT not in (each.text or "") for each in said)
    [free, _] = echoes(story, job, [replace(run, usage=Usage(), wall_sec=None)])
    assert "- 1 run\n" in (free.text or "")


def test_events_without_a_stage_and_echo_events_cause_no_update() -> None:
    first, second = a_story(Stage.BUILDING, Stage.BUILDING)
    trail = advance(new_cursor(a_ticket_job(), seq=0), echoes([first])[0], now=NOON)
    assert (
        next_update(trail, a_ticket_job(), [replace(second, type=event_types.TRACKER_ECHOED)])
        is None
    )
    assert next_update(trail, a_ticket_job(), [replace(second, stage=None)]) is None
    assert next_update(trail, a_ticket_job(), [first]) is None


def test_history_opened_late_starts_with_the_newest_stage() -> None:
    story = a_story(Stage.QUEUED, Stage.ASSIGNED, Stage.BUILDING, Stage.BUILDING)
    assert seq_before_latest_stage(story) == 2
    assert seq_before_latest_stage(story[:1]) == 0


def test_intent_blocks_updates_by_others_until_it_ends() -> None:
    [echo] = echoes(a_story(Stage.BUILDING))
    trail = new_cursor(a_ticket_job(), seq=0)
    assert not trail.is_busy("b", NOON)
    meant = with_intent(trail, echo, by="a", now=NOON)
    assert meant.is_busy("b", after(INTENT_TTL.total_seconds() - 1))
    assert not meant.is_busy("b", after(INTENT_TTL.total_seconds()))
    assert not meant.is_busy("a", NOON)
    assert not release_intent(meant).is_busy("b", NOON)
    done = advance(meant, echo, now=NOON)
    assert (done.seq, done.stage, done.intent, done.expires_at) == (1, "building", None, None)


def test_cursor_of_an_ended_job_expires() -> None:
    [echo] = echoes(a_story(Stage.SHIPPED))
    ended = advance(new_cursor(a_ticket_job(), seq=0), echo, now=NOON)
    assert ended.expires_at is not None
    assert reopen(ended).expires_at is None


def test_cursors_of_a_ticket_share_a_key_prefix() -> None:
    trail = TicketCursor(product_id="notes", item_id="acme/notes#7", job_id="job-1")
    assert trail.key == "notes/acme%2Fnotes%237/job-1"
    assert trail.key.startswith(cursor_prefix("notes", "acme/notes#7"))
    assert trail.marker(4) == "<!-- aq:job-1:echo:4 -->"
    assert FeedCursor(duty="echoes", position=1).key == "echoes"


@pytest.mark.parametrize(
    ("status", "wanted", "becomes"),
    [
        ("open", "in_progress", "in_progress"),
        ("in_progress", "in_progress", None),
        ("in_progress", "done", "done"),
        ("wont_fix", "in_progress", None),
        ("closed", "done", None),
        ("done", "in_progress", None),
        ("open", None, None),
    ],
)
def test_ticket_closed_by_people_stays_closed(status: str, wanted: str, becomes: str) -> None:
    assert status_after(replace(ITEM, status=status), wanted) == becomes  # type: ignore[arg-type]


@given(st.lists(st.sampled_from(Stage), max_size=12))
def test_updates_never_close_a_ticket_as_wont_fix_and_are_sent_once(
    stages: list[Stage],
) -> None:
    said = echoes(a_story(*stages))
    assert all(each.status in {None, "in_progress", "done"} for each in said)
    assert len({each.seq for each in said}) == len(said)
    assert [each.seq for each in said] == sorted(each.seq for each in said)
    if stages:
        assert said[-1].stage is stages[-1]
