"""The ready queue: which jobs are candidates, and in which order."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gigafactory.domain.job.job import Exclusion, Job, Priority, ShipRequest, Stage, Step
from gigafactory.domain.job.lease import lock_key
from gigafactory.domain.queue.lock_queue import ClassQueue
from gigafactory.domain.queue.queued_job import SWEEP_SLACK
from gigafactory.domain.queue.ready_queue import (
    PASSED_OVER_MAX,
    ReadyQueue,
    head_for,
    heads_to_offer,
)
from tests.support.builders import NOON, a_checkpoint, a_job, a_lease, a_running_job, after
from tests.support.small_fleet import NO_DEADLINE, a_queue, an_offer, ask_for, old_job, only_class

LOCK = lock_key("notes", "db")
NO_JOBS: frozenset[str] = frozenset()


def heads(queue: ReadyQueue, *, seconds: float = 0.0) -> list[str]:
    """Return the heads of all classes for a factory that no job excludes."""
    queue.advance(after(seconds))
    found = [
        head_for(group, "mac-1", now=after(seconds), skip=NO_JOBS) for group in queue.classes()
    ]
    return sorted(job.job_id for job in found if job is not None)


def in_order(queue: ReadyQueue) -> list[str]:
    """Return the jobs of a queue with one class, in the order in which they leave it."""
    found = []
    while len(queue):
        (head,) = heads(queue)
        found.append(head)
        queue.remove(head)
    return found


def offerable(group: ClassQueue, *, skip: frozenset[str] = NO_JOBS) -> list[str]:
    return [job.job_id for job in heads_to_offer(group, now=NOON, skip=skip)]


def locked(job_id: str, **fields: object) -> Job:
    return replace(old_job(job_id, lock="db"), **fields)


def test_oldest_job_goes_first_and_ties_go_to_the_lower_id() -> None:
    minute = timedelta(minutes=1)
    queue = a_queue(old_job("b"), old_job("c", waited=minute), old_job("a"))
    assert in_order(queue) == ["c", "a", "b"]


def test_promoted_job_goes_before_older_ones() -> None:
    queue = a_queue(old_job("old", waited=timedelta(hours=1)), old_job("new"))
    queue.put(old_job("new", front=True))
    assert in_order(queue) == ["new", "old"]


def test_jobs_with_equal_requirements_form_one_class() -> None:
    queue = a_queue(
        a_job(id="a"),
        a_job(id="b", checkpoint=a_checkpoint()),
        a_job(id="c", product_id="other"),
        a_job(id="d", priority=Priority.HIGH),
        a_job(id="e", ask=ask_for("gpu")),
        a_job(id="f", stage=Stage.TESTING, ship=ShipRequest(by="ann", commit=None, at=NOON)),
    )
    assert heads(queue) == ["a", "c", "d", "e", "f"]
    assert len(queue) == 6


def test_running_job_leaves_the_queue() -> None:
    queue = a_queue(a_job())
    assert "job-1" in queue
    queue.put(a_running_job())
    assert "job-1" not in queue
    assert list(queue.classes()) == []


def test_composite_is_not_queued_for_a_factory() -> None:
    assert len(a_queue(a_job(kind="composite"))) == 0


def test_removing_a_job_is_idempotent() -> None:
    queue = a_queue(a_job())
    queue.remove("job-1")
    queue.remove("job-1")
    assert len(queue) == 0


def test_delayed_job_enters_at_its_start_time() -> None:
    queue = a_queue(a_job(not_before=after(60)))
    assert heads(queue, seconds=59) == []
    assert queue.demanded_tokens == frozenset()
    assert heads(queue, seconds=60) == ["job-1"]
    waiting = queue.find("job-1")
    assert waiting is not None
    assert waiting.waiting_since == after(60).timestamp()


def test_delayed_job_can_be_cancelled() -> None:
    queue = a_queue(*(a_job(id=f"job-{n}", not_before=after(60)) for n in range(SWEEP_SLACK * 2)))
    for n in range(SWEEP_SLACK * 2):
        queue.remove(f"job-{n}")
    assert heads(queue, seconds=60) == []


def test_delayed_job_that_is_put_again_enters_once() -> None:
    queue = a_queue(a_job(not_before=after(60)), a_job(not_before=after(30)))
    assert heads(queue, seconds=30) == ["job-1"]
    queue.remove("job-1")
    assert heads(queue, seconds=60) == []


def test_ship_step_waits_since_its_request() -> None:
    ship = ShipRequest(by="ann", commit=None, at=after(10))
    queue = a_queue(a_job(stage=Stage.TESTING, ship=ship, lock="db"))
    waiting = queue.find("job-1")
    assert waiting is not None
    assert (waiting.waiting_since, waiting.lock) == (after(10).timestamp(), None)
    assert waiting.job_class.step is Step.SHIP


def test_excluded_factory_gets_the_next_job_of_the_class() -> None:
    queue = a_queue(
        old_job("a", exclusions=(Exclusion("mac-1", after(30)),)),
        old_job("b"),
    )
    group = only_class(queue)
    for factory_id, seconds, expected in (("mac-1", 0, "b"), ("mac-2", 0, "a"), ("mac-1", 30, "a")):
        head = head_for(group, factory_id, now=after(seconds), skip=NO_JOBS)
        assert head is not None
        assert head.job_id == expected


def test_class_with_only_excluded_jobs_has_no_head() -> None:
    exclusions = (Exclusion("mac-1", after(30)),)
    jobs = [old_job(f"{n:03}", exclusions=exclusions) for n in range(PASSED_OVER_MAX)]
    queue = a_queue(*jobs, old_job("last"))
    assert head_for(only_class(queue), "mac-1", now=NOON, skip=NO_JOBS) is None
    assert head_for(only_class(queue), "mac-1", now=after(30), skip=NO_JOBS) is not None
    assert head_for(only_class(a_queue(jobs[0])), "mac-1", now=NOON, skip=NO_JOBS) is None


def test_skipped_job_is_passed_over() -> None:
    group = only_class(a_queue(old_job("a"), old_job("b")))
    head = head_for(group, "mac-1", now=NOON, skip=frozenset({"a"}))
    assert head is not None
    assert head.job_id == "b"
    assert offerable(group, skip=frozenset({"a"})) == ["b"]


def test_job_with_an_exclusion_is_offered_with_the_next_job_behind_it() -> None:
    group = only_class(
        a_queue(
            old_job("a", exclusions=(Exclusion("mac-1", after(30)),)),
            old_job("b", exclusions=(Exclusion("mac-1", NOON),)),
            old_job("c"),
        )
    )
    assert offerable(group) == ["a", "b"]
    assert offerable(group, skip=frozenset({"b", "c"})) == ["a"]


def test_class_with_only_delayed_jobs_offers_nothing() -> None:
    assert offerable(only_class(a_queue(a_job(not_before=after(5))))) == []


def test_offered_job_is_reserved_for_its_factory() -> None:
    queue = a_queue(old_job("a", offer=an_offer("mac-2")))
    assert heads(queue) == []
    assert [job.job_id for job in queue.offered_to("mac-2")] == ["a"]
    assert list(queue.offered_to("mac-1")) == []


def test_job_with_an_expired_offer_can_be_claimed_and_is_not_offered_again() -> None:
    queue = a_queue(old_job("a", offer=an_offer("mac-2")), old_job("b"))
    assert heads(queue, seconds=15) == ["a"]
    assert offerable(only_class(queue)) == ["b"]
    queue.put(old_job("a"))
    assert offerable(only_class(queue)) == ["a"]
    assert list(queue.offered_to("mac-2")) == []


def test_second_offer_to_a_factory_outlives_the_first() -> None:
    queue = a_queue(old_job("a", offer=an_offer()), old_job("b", offer=an_offer()))
    queue.put(old_job("a"))
    assert [job.job_id for job in queue.offered_to("mac-1")] == ["b"]


def test_only_the_first_job_of_a_class_behind_a_lock_is_a_candidate() -> None:
    queue = a_queue(locked("b"), locked("c"), locked("a"), locked("d", ask=ask_for("gpu")))
    assert heads(queue) == ["a", "d"]
    ready = {group.job_class.needed_tokens: group.ready.live for group in queue.classes()}
    assert ready == {frozenset(): 1, frozenset({"gpu"}): 1}


def test_next_job_behind_a_lock_follows_when_the_first_leaves() -> None:
    queue = a_queue(locked("a"), locked("b"), locked("c"))
    queue.remove("b")
    queue.remove("a")
    assert heads(queue) == ["c"]


def test_jobs_behind_a_held_lock_are_no_candidates() -> None:
    queue = a_queue(locked("a"), locked("b"))
    queue.put(a_running_job(id="x", lock="db", lease=a_lease(holds=(LOCK, "slot/mac-1/0"))))
    assert heads(queue) == []
    assert queue.lock_holders(LOCK) == ("x",)
    queue.put(locked("c"))
    assert heads(queue) == []
    queue.put(a_job(id="x", stage=Stage.REVIEW))
    assert heads(queue) == ["a"]
    assert queue.lock_holders("lock/notes/other") == ()


def test_lock_is_held_until_a_revoked_run_has_stopped() -> None:
    ending = a_lease(holds=(LOCK,))
    queue = a_queue(locked("a"), a_job(id="x", stage=Stage.CANCELLED, ending=(ending,)))
    assert heads(queue) == []
    queue.put(a_job(id="x", stage=Stage.CANCELLED))
    assert heads(queue) == ["a"]


def test_removed_job_frees_its_locks() -> None:
    queue = a_queue(locked("a"))
    queue.take_lock(LOCK, "x")
    queue.take_lock("lock/notes/two", "x")
    queue.take_lock(LOCK, "x")
    assert heads(queue) == []
    queue.remove("x")
    assert heads(queue) == ["a"]
    assert queue.lock_holders("lock/notes/two") == ()


def test_freeing_a_lock_that_is_not_held_changes_nothing() -> None:
    queue = a_queue(locked("a"))
    queue.free_lock("lock/notes/unknown", "x")
    queue.free_lock(LOCK, "x")
    assert heads(queue) == ["a"]


def test_offer_holds_the_lock_until_it_expires() -> None:
    queue = a_queue(locked("a", offer=an_offer()), locked("b", ask=ask_for("gpu")))
    assert heads(queue) == []
    assert queue.lock_holders(LOCK) == ("a",)
    assert [job.job_id for job in queue.offered_to("mac-1")] == ["a"]
    assert heads(queue, seconds=15) == ["a", "b"]


def test_withdrawn_offer_frees_the_lock() -> None:
    queue = a_queue(locked("a", offer=an_offer()), locked("b"))
    queue.remove("a")
    assert heads(queue) == ["b"]


def test_offered_job_whose_lock_was_taken_cannot_be_claimed() -> None:
    queue = a_queue(locked("a", offer=an_offer()))
    queue.take_lock(LOCK, "x")
    assert list(queue.offered_to("mac-1")) == []


def test_demanded_tokens_are_those_of_waiting_jobs() -> None:
    queue = a_queue(
        a_job(id="a", ask=ask_for("gpu", "os:mac")),
        a_job(id="b", ask=ask_for("gpu", engine="acp:gemini --acp")),
        a_job(
            id="c",
            ask=ask_for("has:figma"),
            stage=Stage.TESTING,
            ship=ShipRequest(by="ann", commit=None, at=NOON),
        ),
    )
    assert queue.demanded_tokens == {"gpu", "os:mac", "engine:acp"}
    assert queue.demanded_tokens is queue.demanded_tokens
    queue.remove("a")
    assert queue.demanded_tokens == {"gpu", "engine:acp"}


def test_repeated_locking_keeps_the_order_of_the_queue() -> None:
    queue = a_queue(*(locked(f"{n:03}") for n in range(50)))
    for _ in range(5 * SWEEP_SLACK):
        queue.take_lock(LOCK, "x")
        queue.free_lock(LOCK, "x")
    assert in_order(queue) == [f"{n:03}" for n in range(50)]


def test_jobs_that_return_to_the_queue_are_listed_once() -> None:
    queue = a_queue(locked("a", exclusions=(Exclusion("mac-2", after(30)),)), old_job("b"))
    for _ in range(3):
        queue.take_lock(LOCK, "x")
        queue.free_lock(LOCK, "x")
    assert offerable(only_class(queue)) == ["a", "b"]


jobs = st.builds(
    lambda n, age, **fields: old_job(f"j{n}", waited=timedelta(seconds=age), **fields),
    st.integers(0, 12),
    st.integers(0, 3),
    front=st.booleans(),
    lock=st.sampled_from([None, None, "db", "ui"]),
    not_before=st.sampled_from([None, None, after(-1), after(5)]),
    stage=st.sampled_from([Stage.QUEUED, Stage.QUEUED, Stage.QUEUED, Stage.REVIEW]),
    ask=st.sampled_from([ask_for(), ask_for("gpu")]),
    offer=st.sampled_from([None, None, an_offer(), an_offer(expires_at=after(-1))]),
)
locks = st.tuples(st.sampled_from(["db", "ui"]), st.booleans())


def candidates(known: dict[str, Job], held: set[str]) -> list[str]:
    """Return the first job of each class, by a slow but simple algorithm."""
    able = []
    promised = {
        job.lock
        for job in known.values()
        if job.stage is Stage.QUEUED
        and (job.not_before is None or job.not_before <= NOON)
        and job.offer is not None
        and job.offer.expires_at > NOON
    }
    for job in known.values():
        late = job.not_before is not None and job.not_before > NOON
        kept = job.offer is not None and job.offer.expires_at > NOON
        shut = job.lock is not None and job.lock in held | promised
        if job.stage is Stage.QUEUED and not (late or kept or shut):
            able.append(job)
    able.sort(key=lambda job: (not job.front, job.created_at, job.id))
    first: dict[object, str] = {}
    for job in able:
        first.setdefault(job.ask, job.id)
    return sorted(first.values())


@NO_DEADLINE
@given(st.lists(jobs | locks | st.integers(0, 12), max_size=60))
def test_heads_match_a_search_over_all_jobs(
    steps: list[Job | tuple[str, bool] | int],
) -> None:
    queue, known, held = ReadyQueue(), dict[str, Job](), set[str]()
    for step in steps:
        match step:
            case Job():
                queue.put(step)
                known[step.id] = step
            case int():
                queue.remove(f"j{step}")
                known.pop(f"j{step}", None)
            case (lock, True):
                queue.take_lock(lock_key("notes", lock), "holder")
                held.add(lock)
            case (lock, _):
                queue.free_lock(lock_key("notes", lock), "holder")
                held.discard(lock)
        assert heads(queue) == candidates(known, held)
    assert len(queue) == sum(job.stage is Stage.QUEUED for job in known.values())


@pytest.mark.parametrize("length", [1, 1000])
def test_class_of_jobs_behind_one_lock_has_one_candidate(length: int) -> None:
    queue = a_queue(*(replace(locked("x"), id=f"{n:04}") for n in range(length)))
    assert only_class(queue).ready.live == 1
