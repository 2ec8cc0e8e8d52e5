"""Plan files: parsing, all faults at once, and the effect of a verdict on the planner."""

import pytest
from msgspec.structs import replace

from gigafactory.domain.composite.composite import add_children
from gigafactory.domain.composite.plan import (
    FAULTS_SHOWN_MAX,
    PLAN_BYTES_MAX,
    PLAN_FILE,
    REASON_CHARS_MAX,
    accept_plan,
    parse_plan,
    refuse_plan,
    refuse_planner_name,
    send_back,
)
from gigafactory.domain.errors import Cycle, Fault, Invalid
from gigafactory.domain.job.job import Job, Result, Roadmap, Stage, Terms
from gigafactory.domain.job.operator_actions import approve
from gigafactory.domain.job.worker_report import Report, change_for
from gigafactory.domain.manifest.job_file import parse_json_job
from gigafactory.domain.manifest.profile import Profile
from gigafactory.domain.submission.draft import draft
from tests.support.builders import NOON, a_job, a_running_job

PROFILE = Profile(name="planner", version=3)
DONE = Report(job_id="j", epoch=1, stage=Stage.REVIEW, result=Result.OK)


def a_planner(**fields: object) -> Job:
    return a_running_job(**({"profile": "planner@3", "parent_id": "top"} | fields))


def faults(data: bytes) -> list[str]:
    with pytest.raises(Invalid) as wrong:
        parse_plan(data)
    return [str(fault) for fault in wrong.value.faults]


def test_plan_parses_as_a_list_of_manifests_with_bodies() -> None:
    one, two = parse_plan(b"- name: one\n  phase: 2\n  body: Do it.\n- title: Two\n")
    assert (one.manifest.name, one.manifest.phase, one.body) == ("one", 2, "Do it.")
    assert (two.manifest.title, two.body) == ("Two", "")


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", ["line 1: plan: found nothing; expected a list of manifests with bodies"]),
        (b"[]", ["plan: found no job; expected a list of at least one"]),
        (b"a: 1\n---\n- b\n", ["line 3: found a second YAML document; expected one"]),
        (b"\xfe", ["line 1: found the byte 0xfe; expected a file in UTF-8"]),
        (
            b"- phase: x\n- {lock: []}\n",
            [
                "line 1: plan[0].phase: found 'x'; expected a whole number from 0 to 10000",
                "line 2: plan[1].lock: found a list of 0; expected text",
            ],
        ),
    ],
)
def test_plan_faults_name_their_line_and_field(data: bytes, told: list[str]) -> None:
    assert faults(data) == told


def test_oversized_or_malformed_plan_is_rejected() -> None:
    assert "expected at most" in faults(b"#" * (PLAN_BYTES_MAX + 1))[0]
    assert "line 2: it is not readable as YAML" in faults(b"- {\n")[0]
    assert "nested deeper" in faults(b"[" * 40)[0]


def test_plan_must_not_reuse_the_name_of_its_planner() -> None:
    planner = a_planner(name="two")
    refuse_planner_name(planner, parse_plan(b"- name: one\n"))
    with pytest.raises(Invalid, match=r"plan\[1\].name: found 'two'"):
        refuse_planner_name(planner, parse_plan(b"- name: one\n- name: two\n"))


def test_only_a_leaf_child_with_the_planner_profile_is_a_planner() -> None:
    assert a_planner().planner
    assert not a_planner(parent_id=None).planner
    assert not a_planner(profile="planner-of-parties@1").planner
    assert not a_planner(profile=None).planner
    assert not a_planner(kind="composite").planner


def test_planner_manifest_lists_the_plan_file_as_an_artifact() -> None:
    file = parse_json_job({"manifest": {"artifacts": ["notes.md"]}, "body": "x"})
    made = draft(file, PROFILE, job_id="j", product="p", by="user:ann", now=NOON, parent_id="top")
    assert made.job.parent_id == "top"
    assert f'"artifacts":["notes.md","{PLAN_FILE}"]'.encode() in bytes(made.spec.manifest)
    alone = draft(file, PROFILE, job_id="j", product="p", by="user:ann", now=NOON)
    assert PLAN_FILE.encode() not in bytes(alone.spec.manifest)


def test_valid_plan_counts_as_verify_for_a_planner_without_verify() -> None:
    planner = a_planner(terms=Terms(review_by_people=False, ship="none", auto_ship=True))
    report = accept_plan(planner, replace(DONE, job_id=planner.id, stage=Stage.TESTING), 7)
    assert report.verify == {"passed": True, "plan": PLAN_FILE, "jobs": 7}
    change = change_for(planner, "mac-1", report, now=NOON)
    assert change is not None
    assert change.after.stage is Stage.SHIPPED
    verified = replace(planner, terms=Terms(verify=True))
    assert accept_plan(verified, DONE, 7) is DONE


def test_approved_plan_ships_at_once() -> None:
    planner = a_planner(terms=Terms(ship="none", auto_ship=True))
    report = accept_plan(planner, replace(DONE, job_id=planner.id), 1)
    change = change_for(planner, "mac-1", report, now=NOON)
    assert change is not None
    assert change.after.stage is Stage.REVIEW
    assert approve(change.after, "user:bob", "", None, now=NOON).after.stage is Stage.SHIPPED


@pytest.mark.parametrize("verify", [True, False])
def test_invalid_plan_fails_its_planner(verify: bool) -> None:  # noqa: FBT001
    planner = a_planner(terms=Terms(verify=verify))
    why = Invalid("the plan", [Fault("plan[0].deps", "there is no job 'x'")])
    report = refuse_plan(planner, replace(DONE, job_id=planner.id), why)
    assert (report.stage, report.result) == (Stage.FAILED, Result.VERIFY_FAILED)
    assert report.reason == "the plan is not valid: plan[0].deps: there is no job 'x'"
    assert (report.verify is None) is verify
    change = change_for(planner, "mac-1", report, now=NOON)
    assert change is not None
    assert (change.after.stage, change.after.reason) == (Stage.FAILED, report.reason)
    assert send_back(change, "x") is change


def test_retried_planner_gets_only_the_newest_rejection_as_follow_up() -> None:
    planner = a_planner(terms=Terms(retry_max=2), follow_ups=("Be brief.",))
    why = Cycle(["a", "b", "a"])
    report = refuse_plan(planner, replace(DONE, job_id=planner.id), why)
    assert report.reason is not None
    assert report.reason.startswith("the plan cannot be applied: ")
    change = change_for(planner, "mac-1", report, now=NOON)
    assert change is not None
    once = send_back(change, "first")
    twice = send_back(once, "second")
    kept, added = twice.after.follow_ups
    assert kept == "Be brief."
    assert added.endswith("second")
    assert "first" not in added


def test_plan_rejection_reason_is_bounded() -> None:
    planner = a_planner()
    many = Invalid("the plan", [Fault(f"plan[{n}]", "wrong") for n in range(50)])
    said = refuse_plan(planner, DONE, many).reason
    assert said is not None
    assert said.count("wrong") == FAULTS_SHOWN_MAX
    assert said.endswith("and 40 faults more")
    long = refuse_plan(planner, DONE, Invalid("the plan", [Fault("", "x" * 10_000)])).reason
    assert long is not None
    assert len(long) == REASON_CHARS_MAX + 1


def test_adding_only_a_planner_keeps_the_roadmap_revision() -> None:
    top = a_job(kind="composite", roadmap=Roadmap(2, 1), stage=Stage.BUILDING)
    planning = add_children(top, [a_planner()], by="user:ann", now=NOON)
    assert planning.after.roadmap == Roadmap(2, 1)
    assert [event.type for event in planning.events] == ["planning"]
    planned = add_children(top, [a_planner(), a_job()], by="user:ann", now=NOON)
    assert planned.after.roadmap == Roadmap(3, 1)
