"""Composites: expansion into children, comparison of plans with existing children, rollups."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gigafactory.domain.composite.rollup import roll_up
from gigafactory.domain.errors import Cycle, Invalid
from gigafactory.domain.job.job import Job, Result, Roadmap, Stage, Terms
from gigafactory.domain.job.run import Usage, start_run
from gigafactory.domain.manifest.job_file import parse_json_job
from gigafactory.domain.manifest.manifest import JobFile
from gigafactory.domain.submission.children import (
    expand,
    refuse_waiting_cycles,
    require_manual_ship,
)
from gigafactory.domain.submission.draft import Draft, draft
from gigafactory.domain.submission.replanning import (
    adopt_child,
    compare_plan,
    replace_child,
)
from tests.support.builders import NOON, a_job, a_running_job


def a_file(*children: Mapping[str, object], **manifest: object) -> JobFile:
    said = {"name": "all", "kind": "composite", "children": list(children), **manifest}
    return parse_json_job({"manifest": said, "body": "x"})


def named(job_id: str, **fields: object) -> Job:
    return a_job(**({"id": job_id, "name": job_id} | fields))


def a_draft(name: str, body: str = "x") -> Draft:
    file = parse_json_job({"manifest": {"name": name}, "body": body})
    return draft(file, None, job_id=f"new-{name}", product="notes", by="user:ann", now=NOON)


def as_stored(made: Draft, stage: Stage, **fields: object) -> Job:
    return replace(made.job, id=f"old-{made.job.name}", stage=stage, rev=3, **fields)


def test_composites_are_expanded_before_their_children_at_any_depth() -> None:
    inner = {"name": "in", "kind": "composite", "children": [{"name": "deep"}]}
    sprouts = expand([a_file({"name": "a"}, inner, product="notes"), a_file()], places=["", "b"])
    assert [(s.file.manifest.name, s.place, s.parent) for s in sprouts] == [
        ("all", "", None),
        ("a", "children[0]", 0),
        ("in", "children[1]", 0),
        ("deep", "children[1].children[0]", 2),
        ("all", "b", None),
    ]
    assert sprouts[1].file.manifest.product is None


def test_fields_not_allowed_in_a_child_are_reported_with_their_place() -> None:
    with pytest.raises(Invalid) as refused:
        expand(
            [
                a_file(
                    {"name": "a", "product": "shop"},
                    {"name": "b", "parent": "x"},
                    {"name": "c", "schedule": "0 3 * * *"},
                    {"name": "d", "product": "notes"},
                    product="notes",
                    schedule="0 3 * * *",
                )
            ]
        )
    assert [fault.field for fault in refused.value.faults] == [
        "schedule",
        "children[0].product",
        "children[1].parent",
        "children[2].schedule",
    ]


TREE = [named("top"), named("a", parent_id="top"), named("b", parent_id="top")]


@pytest.mark.parametrize(
    ("jobs", "deps", "told"),
    [
        (TREE, {"a": ["b"], "b": ["a"]}, "a → b → a"),
        (TREE, {"a": ["top"]}, "a → top → a"),
        (TREE, {"top": ["a"]}, "top → a → top"),
        (
            [
                TREE[0],
                named("a", parent_id="top", phase=1),
                named("b", parent_id="top", phase=2),
            ],
            {"a": ["b"]},
            "a → b → top → a",
        ),
        ([*TREE, named("x")], {"top": ["x"], "x": ["b"]}, "top → x → b → top"),
        ([named("x")], {"x": ["x"]}, "x → x"),
    ],
)
def test_waiting_cycle_is_rejected_with_its_path(
    jobs: list[Job], deps: dict[str, list[str]], told: str
) -> None:
    with pytest.raises(Cycle) as refused:
        refuse_waiting_cycles(jobs, deps)
    assert set(refused.value.path) == set(told.split(" → "))
    assert refused.value.path[0] == refused.value.path[-1]


def test_forward_phases_and_dependencies_form_no_cycle() -> None:
    a, b, c = (named(n, parent_id="top", phase=p) for n, p in (("a", 1), ("b", 2), ("c", 5)))
    outside = named("elsewhere", parent_id="not-here", phase=1)
    refuse_waiting_cycles(
        [named("top"), a, b, c, named("d", parent_id="top"), outside],
        {"b": ["a"], "c": ["a", "b"], "top": ["old"]},
    )


def test_open_phase_does_not_count_as_waiting() -> None:
    top = named("top", kind="composite", roadmap=Roadmap(1, 2))
    one, two = (named(f"p{phase}", parent_id="top", phase=phase) for phase in (1, 2))
    refuse_waiting_cycles([top, one, two], {"p1": ["p2"]})
    three = named("p3", parent_id="top", phase=3)
    with pytest.raises(Cycle):
        refuse_waiting_cycles([top, one, two, three], {"p1": ["p3"]})


def test_composite_without_children_gets_a_planner() -> None:
    goal = a_file(
        profile="planner@2",
        repo="notes",
        verify="make check",
        deps=["x"],
        budget={"usd": 5},
        idempotencyKey="k",
        product="notes",
        reviewPolicy="auto",
    )
    top, planner = expand([goal])
    assert (top.file, planner.parent, planner.place) == (goal, 0, "")
    said = planner.file.manifest
    assert (said.kind, said.name, said.title) == (None, None, "Plan: x")
    assert (said.profile, said.repo) == ("planner@2", "notes")
    assert said.review_policy is not None
    gone = (said.verify, said.deps, said.budget, said.idempotency_key, said.product)
    assert gone == (None, (), None, None, None)
    assert len(expand([a_file({"name": "a"}, profile="planner")])) == 2
    assert len(expand([parse_json_job({"manifest": {"profile": "planner"}, "body": "x"})])) == 1


def test_shipped_planner_is_not_kept() -> None:
    made = a_draft("plan")
    job = replace(made.job, profile="planner@1", parent_id="top")
    made = replace(made, job=job)
    assert compare_plan([made], [as_stored(made, Stage.SHIPPED)]).kept == {}
    waiting = as_stored(made, Stage.QUEUED)
    assert compare_plan([made], [waiting]).kept == {job.id: waiting}


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=8))
def test_dependencies_on_earlier_jobs_never_form_a_cycle(pairs: list[tuple[int, int]]) -> None:
    jobs = [named("top"), *(named(f"j{n}", parent_id="top") for n in range(6))]
    deps: dict[str, list[str]] = {}
    for one, other in pairs:
        if one > other:
            deps.setdefault(f"j{one}", []).append(f"j{other}")
    refuse_waiting_cycles(jobs, deps)


@pytest.mark.parametrize(
    ("stage", "same", "becomes"),
    [
        (Stage.SHIPPED, True, "kept"),
        (Stage.SHIPPED, False, "new"),
        (Stage.QUEUED, True, "kept"),
        (Stage.QUEUED, False, "replaced"),
        (Stage.BLOCKED, False, "replaced"),
        (Stage.BUILDING, True, "kept"),
        (Stage.BUILDING, False, "kept"),
        (Stage.FAILED, True, "replaced"),
        (Stage.CANCELLED, False, "replaced"),
    ],
)
def test_plan_never_replaces_running_or_shipped_children(
    stage: Stage, becomes: str, *, same: bool
) -> None:
    made = a_draft("a")
    there = as_stored(made if same else a_draft("a", "other words"), stage)
    found = compare_plan([made, a_draft("b")], [there])
    result = {"kept": found.kept, "replaced": found.replaced}
    assert {what for what, jobs in result.items() if jobs} == {becomes} - {"new"}
    assert "new-b" not in (*found.kept, *found.replaced)


def test_replaced_child_is_superseded_whether_waiting_or_ended() -> None:
    waiting = replace_child(named("old"), "new", by="user:ann", now=NOON).after
    assert (waiting.stage, waiting.result, waiting.superseded_by) == (
        Stage.CANCELLED,
        Result.SUPERSEDED,
        "new",
    )
    failed = replace_child(named("old", stage=Stage.FAILED), "new", by="user:ann", now=NOON).after
    assert (failed.stage, failed.superseded_by) == (Stage.FAILED, "new")


def test_shipped_child_is_adopted_by_the_composite_that_runs_again() -> None:
    shipped = named("old", stage=Stage.SHIPPED, parent_id="first")
    change = adopt_child(shipped, "second", 2, by="user:ann", now=NOON)
    assert (change.after.parent_id, change.after.phase) == ("second", 2)
    assert change.events[0].data == {"parent": "second", "was": "first"}


def test_rollup_sums_jobs_and_usage_below_the_composite() -> None:
    top = named("top", kind="composite", roadmap=Roadmap(3, 1, 2), stage=Stage.BUILDING)
    below = [
        named("in", kind="composite"),
        named("a", stage=Stage.SHIPPED),
        named("b", stage=Stage.FAILED),
        named("c", stage=Stage.BLOCKED, flags=("dep_failed",)),
        named("d", stage=Stage.BLOCKED),
        named("e", stage=Stage.CANCELLED, superseded_by="d"),
    ]
    run = start_run(a_running_job(), {})
    spent = [
        run,
        replace(run, usage=Usage(tokens_in=5, cost_nano_usd=7)),
        replace(run, usage=Usage(tokens_out=3)),
    ]
    sums = roll_up(top, below, spent)
    assert (sums.status, sums.total, sums.shipped) == ("in_progress", 4, 1)
    assert sums.stages == {"blocked": 2, "shipped": 1, "failed": 1}
    assert (sums.blocked, sums.failed) == (("c",), ("b",))
    assert (sums.cost_nano_usd, sums.tokens) == (7, 8)
    assert (sums.revision, sums.phase, sums.asked_phase) == (3, 1, 2)


@pytest.mark.parametrize(
    ("stage", "status"),
    [(Stage.QUEUED, "queued"), (Stage.BLOCKED, "blocked"), (Stage.CANCELLED, "cancelled")],
)
def test_rollup_status_follows_the_stage_before_start_and_after_the_end(
    stage: Stage, status: str
) -> None:
    sums = roll_up(named("top", kind="composite", stage=stage), [named("a")], [])
    assert (sums.status, sums.revision, sums.phase, sums.asked_phase) == (status, 0, None, None)


def test_agents_add_auto_ship_jobs_only_to_an_auto_ship_composite() -> None:
    hasty, slow = a_job(terms=Terms(auto_ship=True)), a_job()
    require_manual_ship({"jobs[0]": slow}, None)
    require_manual_ship({"jobs[0]": hasty}, a_job(terms=Terms(auto_ship=True)))
    with pytest.raises(Invalid) as refused:
        require_manual_ship({"jobs[0]": slow, "jobs[1]": hasty}, slow)
    assert [fault.field for fault in refused.value.faults] == ["jobs[1].ship-policy"]
