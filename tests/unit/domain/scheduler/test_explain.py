"""Explanations for people: why a job runs here, why not yet, why never."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from gigafactory.domain.fleet.factory import EngineSeats
from gigafactory.domain.fleet.fleet_state import FleetState
from gigafactory.domain.fleet.matching import PastCapabilities
from gigafactory.domain.fleet.unroutable import unroutable_reasons
from gigafactory.domain.job.job import Exclusion, Job, Roadmap, ShipRequest, Stage, Terms
from gigafactory.domain.scheduler.explain import Explanation, explain
from gigafactory.domain.tenancy.halt_switch import HaltSwitch
from gigafactory.domain.tenancy.product import Product
from tests.support.builders import (
    NOON,
    a_checkpoint,
    a_factory,
    a_job,
    a_lease,
    a_running_job,
    a_shipping_job,
    after,
)
from tests.support.small_fleet import (
    a_fleet,
    a_linux,
    a_queue,
    an_offer,
    ask_for,
    old_job,
    pick_job,
)
from tests.unit.domain.tenancy.test_budget import USD, a_budget

SHIP = {"stage": Stage.TESTING, "ship": ShipRequest(by="user:ann", commit=None, at=NOON)}


def why(job: Job, fleet: FleetState, *others: Job) -> Explanation:
    return explain(job, a_queue(job, *others), fleet, NOON)


def said(explanation: Explanation) -> list[tuple[str, str]]:
    return [(reason.code, reason.message) for reason in explanation.reasons]


def test_running_job_is_explained_by_its_decision() -> None:
    fleet = a_fleet(a_factory())
    answer = explain(a_running_job(), a_queue(), fleet, after(120), decision={"score": 2.5})
    assert (answer.answer, answer.decision) == ("here", {"score": 2.5})
    assert answer.summary == "mac-1 runs it with claude, granted 2 min ago"
    shipping = explain(a_shipping_job(), a_queue(), fleet, after(3))
    assert shipping.summary == "mac-1 ships it, granted 3 s ago"
    assert shipping.decision is None


def test_ended_job_is_explained_by_its_result() -> None:
    fleet = a_fleet()
    assert why(a_job(stage=Stage.SHIPPED), fleet).summary == "the job has ended as shipped"
    failed = why(a_job(stage=Stage.FAILED, reason="verify failed"), fleet)
    assert (failed.answer, failed.summary) == (
        "ended",
        "the job has ended as failed: verify failed",
    )


@pytest.mark.parametrize(
    ("stage", "summary"),
    [
        (Stage.REVIEW, "it waits for a review"),
        (Stage.TESTING, "it is ready, and waits for a ship request"),
        (Stage.ASSIGNED, "it is assigned"),
    ],
)
def test_job_that_waits_for_a_person_is_explained_as_such(stage: Stage, summary: str) -> None:
    answer = why(a_job(stage=stage), a_fleet())
    assert (answer.answer, answer.summary) == ("person", summary)


def test_failed_ship_is_part_of_the_explanation() -> None:
    answer = why(a_job(stage=Stage.TESTING, reason="ship: a conflict"), a_fleet())
    assert answer.summary == "it is ready, and waits for a ship request; ship: a conflict"


def test_blocked_job_is_explained_by_its_dependencies() -> None:
    job = a_job(stage=Stage.BLOCKED, deps=("b", "a"))
    answer = why(job, a_fleet())
    assert answer.summary == "it waits for 2 other jobs"
    assert said(answer) == [("deps", "it waits for job a"), ("deps", "it waits for job b")]
    lost = replace(job, flags=("dep_failed",))
    open_now = explain(lost, a_queue(), a_fleet(), NOON, open_deps=["b"])
    assert open_now.summary == ("it waits for 1 other job; one of them can no longer succeed")


def test_blocked_job_without_open_dependencies_is_explained_by_its_composite() -> None:
    job = a_job(stage=Stage.BLOCKED, deps=("b",), phase=2)
    plan = a_job(name="plan", kind="composite", stage=Stage.BUILDING, roadmap=Roadmap(1, 1))

    def explained(child: Job, parent: Job | None) -> tuple[str, str]:
        answer = explain(child, a_queue(), a_fleet(), NOON, open_deps=[], parent=parent)
        return answer.answer, answer.summary

    asked = replace(plan, roadmap=Roadmap(1, 1, 2))
    assert explained(job, asked) == ("person", "phase 2 of plan waits for approval")
    phase = "it waits for its phase in its composite plan, which is building"
    assert explained(job, plan) == ("not_yet", phase)
    queued = replace(plan, stage=Stage.QUEUED, roadmap=None)
    whole = "it waits for its composite plan, which is queued"
    assert explained(replace(job, phase=None), queued) == ("not_yet", whole)
    soon = "nothing holds it any more: it is queued in a moment"
    assert explained(job, None) == ("not_yet", soon)


def test_template_and_composite_are_explained_as_no_work_for_a_factory() -> None:
    template = a_job(stage=Stage.BLOCKED, terms=Terms(schedule="0 3 * * *"))
    assert (
        why(template, a_fleet()).summary == "a template: a copy is submitted on schedule 0 3 * * *"
    )
    composite = a_job(kind="composite")
    assert why(composite, a_fleet()).summary == "a composite runs through its children"
    asked = a_job(kind="composite", stage=Stage.BUILDING, roadmap=Roadmap(1, 1, 2))
    assert why(asked, a_fleet()).summary == "phase 2 waits for approval"


def test_missing_capability_names_its_last_factory_and_time() -> None:
    fleet = a_fleet(a_linux(), now=NOON)
    had = PastCapabilities(frozenset({"has:figma", "os:linux", "engine:claude"}), ("*",))
    fleet.remember_capabilities("mac-2", had, after(-3 * 3600 - 5))
    older = PastCapabilities(frozenset({"has:figma", "os:mac"}), ("notes",))
    fleet.remember_capabilities("mac-3", older, after(-9 * 3600))
    answer = why(a_job(ask=ask_for("has:figma", "os:linux")), fleet)
    assert answer.summary == "no factory advertises has:figma; mac-2 did until 3 h ago"
    assert said(answer)[1] == ("capability", "linux-1: it lacks has:figma")
    assert answer.rejections == {"capability": 1}
    assert answer.unroutable == ()


def test_obstacles_of_the_job_itself_are_listed_first() -> None:
    fleet = a_fleet(a_factory(slots=5))
    fleet.put_switch(HaltSwitch(product_id="notes", halted=True, by="user:ann", at=NOON))
    job = a_job(lock="db", not_before=after(90), offer=an_offer())
    holder = a_running_job(id="y", lease=a_lease(holds=("lock/notes/db",)))
    assert said(why(job, fleet, holder)) == [
        ("halted", "product notes was halted by user:ann"),
        ("not_before", "it waits until 2026-01-01 12:01:30 UTC (1 min)"),
        ("lock", "lock db is held by job y"),
        ("offered", "it is offered to mac-1 until 12:00:15 UTC"),
    ]


def test_lock_held_by_the_jobs_own_stopping_run_is_explained() -> None:
    job = a_job(lock="db", ending=(a_lease(holds=("lock/notes/db",)),))
    assert said(why(job, a_fleet(a_factory()))) == [
        ("lock", "lock db is held by its own previous run, which is stopping")
    ]


def test_lock_promised_to_the_job_itself_is_no_obstacle() -> None:
    job = a_job(lock="db", offer=an_offer())
    assert [code for code, _ in said(why(job, a_fleet(a_factory())))] == ["offered"]


def test_busy_seats_are_counted_and_similar_factories_grouped() -> None:
    fleet = a_fleet(
        *(a_linux(f"f{n}", slots=0) for n in range(5)),
        a_factory(slots=4, engines={"claude": EngineSeats(seats=1)}),
    )
    fleet.put_job(a_running_job(id="other"))
    job = a_job(exclusions=(Exclusion("gone", after(30)),))
    answer = why(job, fleet)
    assert said(answer) == [
        ("busy", "f0, f1, f2 and 2 more: every slot is taken: 0 of 0"),
        ("busy", "mac-1: every claude seat is busy: 1 of 1"),
    ]
    assert answer.rejections == {"busy": 6}


def test_job_that_could_run_is_explained_by_its_place_in_the_queue() -> None:
    job = old_job("x", waited=timedelta(hours=2))
    assert why(job, a_fleet(a_factory())).summary == (
        "mac-1 could run it: it is medium (aged by 2), and waits behind jobs that are more"
        " urgent or have waited longer"
    )
    shipping = a_job(**SHIP, ask=ask_for("gpu"), checkpoint=a_checkpoint())
    assert why(shipping, a_fleet(a_factory())).summary == (
        "mac-1 could run it: it is medium, and waits behind jobs that are more urgent"
        " or have waited longer"
    )


def test_job_unknown_to_the_queue_is_explained() -> None:
    answer = explain(a_job(ask=ask_for("gpu")), a_queue(), a_fleet(a_factory()), NOON)
    assert answer.unroutable == ("no factory has ever advertised gpu; no similar token is known",)
    assert answer.summary == answer.unroutable[0]


def test_missing_factories_are_explained() -> None:
    assert why(a_job(**SHIP), a_fleet()).summary == "no factory is enrolled for product notes"
    assert why(a_job(), a_fleet()).summary == "no factory has enrolled yet for product notes"


def test_unroutable_job_names_the_nearest_tokens() -> None:
    fleet = a_fleet(a_factory(capabilities=("os:mac", "has:figma")))
    assert unroutable_reasons(ask_for("has:figmaa", "os:mac"), "notes", fleet) == (
        "no factory has ever advertised has:figmaa; nearest known: has:figma",
    )
    assert unroutable_reasons(ask_for("has:figma", "os:any"), "notes", fleet) == ()


def test_engine_that_no_factory_has_is_unroutable() -> None:
    fleet = a_fleet(a_factory())
    assert unroutable_reasons(ask_for(engine="claud"), "notes", fleet) == (
        "no factory has ever had the engine claud; nearest known: engine:claude",
    )
    assert unroutable_reasons(ask_for(engine_class="chat-coder"), "notes", fleet) == (
        "no factory has ever had the chat-coder engine; nearest known: engine:claude",
    )


def test_factory_that_never_existed_is_unroutable() -> None:
    fleet = a_fleet(a_factory())
    assert unroutable_reasons(ask_for("factory:mac-2"), "notes", fleet) == (
        "there has never been a factory mac-2; nearest known: factory:mac-1",
    )
    assert unroutable_reasons(ask_for("factory:mac-1"), "notes", fleet) == ()
    fleet.remove("mac-1")
    assert unroutable_reasons(ask_for("factory:mac-1"), "notes", fleet) == ()


def test_tokens_never_advertised_together_are_unroutable() -> None:
    fleet = a_fleet(a_factory(), a_linux(capabilities=("os:linux", "gpu")))
    assert unroutable_reasons(ask_for("os:mac", "has:xcode", "gpu"), "notes", fleet) == (
        "no factory has ever had all needed tokens at once: the closest one lacks gpu",
    )


def test_yolo_job_without_any_working_sandbox_is_unroutable() -> None:
    broken = a_factory(capabilities=("os:mac", "sandbox:none", "sandbox:broken"))
    [reason] = unroutable_reasons(ask_for(yolo=True), "notes", a_fleet(broken))
    assert reason.startswith("each factory that could run it refuses it: it has no sandbox")
    both = a_fleet(broken, a_linux())
    assert unroutable_reasons(ask_for(yolo=True), "notes", both) == ()


def test_capabilities_of_a_removed_factory_keep_a_job_routable() -> None:
    fleet = a_fleet(a_factory())
    fleet.remove("mac-1")
    assert unroutable_reasons(ask_for("has:xcode"), "notes", fleet) == ()


def test_paused_product_and_insufficient_budget_are_explained() -> None:
    fleet = a_fleet(a_factory())
    fleet.put_budget(a_budget(spent=10 * USD), now=NOON)
    assert said(why(a_job(), fleet))[0][0] == "budget_paused"
    fleet.put_budget(a_budget(), now=NOON)
    code, message = said(why(a_job(ask=ask_for(budget_nano_usd=11 * USD)), fleet))[0]
    assert (code, "needs $11, and $10 is left" in message) == ("budget", True)
    expensive = a_job(ask=ask_for(budget_nano_usd=11 * USD))
    assert pick_job(a_queue(expensive), fleet, "mac-1", now=NOON) is None


def test_factories_of_other_products_are_neither_named_nor_counted() -> None:
    bravo = a_linux("bravo-m2", products=("bravo",), capabilities=("cred:bravo-prod-db", "gpu"))
    fleet = a_fleet(bravo, a_linux("own-1", products=("notes", "shop")))
    gone = PastCapabilities(frozenset({"cred:bravo-old", "engine:claude"}), ("bravo",))
    fleet.remember_capabilities("bravo-m1", gone, NOON)
    answer = why(a_job(ask=ask_for("cred:bravo", "factory:bravo-m2")), fleet)
    assert answer.unroutable == (
        "there has never been a factory bravo-m2; nearest known: factory:own-1",
        "no factory has ever advertised cred:bravo; no similar token is known",
    )
    assert answer.rejections == {"capability": 1}
    assert all("bravo-m" not in text.replace("factory bravo-m2", "") for _, text in said(answer))
    assert unroutable_reasons(ask_for("gpu"), "bravo", fleet) == ()
    only_theirs = a_fleet(bravo)
    assert unroutable_reasons(ask_for("gpu"), "notes", only_theirs) == (
        "no factory has enrolled yet for product notes",
    )


def test_the_repos_of_others_on_a_shared_factory_are_not_suggested() -> None:
    fleet = a_fleet(a_linux(repos=("bravo-merger", "notes-web")))
    assert unroutable_reasons(ask_for("repo:bravo-merge"), "notes", fleet) == (
        "no factory has ever advertised repo:bravo-merge; no similar token is known",
    )
    fleet.put_product(Product(id="notes", repos=("https://git.example/acme/notes-web.git",)))
    assert unroutable_reasons(ask_for("repo:notes-wep"), "notes", fleet) == (
        "no factory has ever advertised repo:notes-wep; nearest known: repo:notes-web",
    )
