"""Matching: whether a factory can run a job at all, and why not."""

import pytest

from gigafactory.domain.fleet.factory import EngineSeats
from gigafactory.domain.fleet.matching import FactoryTraits, Fit, Rejection, capability_fit, match
from gigafactory.domain.job.job import Ask, Job, ShipRequest, Stage
from gigafactory.domain.queue.queued_job import JobClass
from tests.support.builders import NOON, a_factory, a_job
from tests.support.small_fleet import ask_for

MANY = {name: EngineSeats() for name in ("aider", "claude", "codex", "copilot", "command", "acp")}
SHIP = {"stage": Stage.TESTING, "ship": ShipRequest(by="ann", commit=None, at=NOON)}


def class_of(job: Job) -> JobClass:
    assert job.step is not None
    return JobClass.of(job, job.step)


def matched(ask: Ask, **factory: object) -> Fit | Rejection:
    return match(class_of(a_job(ask=ask)), FactoryTraits.of(a_factory(**factory)))


def engines(ask: Ask) -> list[str | None]:
    fit = matched(ask, engines=MANY)
    return [choice.engine for choice in fit.engines] if isinstance(fit, Fit) else []


@pytest.mark.parametrize(
    ("ask", "factory", "code", "message"),
    [
        (ask_for(), {"products": ("shop",)}, "product", "its token does not admit product notes"),
        (ask_for("gpu", "os:mac"), {}, "capability", "it lacks gpu"),
        (
            ask_for(repo="notes"),
            {"may_clone": False, "repos": ("other",)},
            "repo",
            "it has no checkout of notes and may not clone",
        ),
        (ask_for(engine="devin"), {}, "engine", "it has no engine devin"),
        (ask_for(engine_class="chat-coder"), {}, "engine", "it has no chat-coder engine"),
        (ask_for(), {"draining": True}, "draining", "it is draining"),
        (
            ask_for(sandbox="strict"),
            {"capabilities": ("os:mac", "sandbox:none", "sandbox:workspace")},
            "sandbox",
            "it cannot run a job in sandbox strict",
        ),
        (
            ask_for(yolo=True),
            {"capabilities": ("sandbox:none", "sandbox:broken")},
            "sandbox",
            (
                "it has no sandbox that works, so it takes no yolo job; install one there"
                " (`aq doctor` says how), or set factory.yolo-without-sandbox"
            ),
        ),
    ],
)
def test_rejection_names_the_unmet_requirement(
    ask: Ask, factory: dict[str, object], code: str, message: str
) -> None:
    assert matched(ask, **factory) == Rejection(code, message)


def test_factory_fits_a_job_when_its_token_and_capabilities_match() -> None:
    fit = matched(
        ask_for("os:mac", "node>=20", repo="notes", prefers=("has:xcode", "gpu", "factory:mac-1")),
        products=("notes",),
        capabilities=("os:mac", "has:xcode", "node:20.11.1"),
        repos=("notes",),
        may_clone=False,
    )
    assert isinstance(fit, Fit)
    assert fit.matched == ("node>=20", "os:mac")
    assert (fit.prefers_met, fit.warm) == (1, True)


@pytest.mark.parametrize("said", [("sandbox:none", "sandbox:strict"), ("os:mac",)])
def test_strict_job_fits_a_factory_that_sandboxes_or_does_not_say(
    said: tuple[str, ...],
) -> None:
    assert isinstance(matched(ask_for(sandbox="strict"), capabilities=said), Fit)


def test_yolo_job_fits_a_factory_without_sandbox() -> None:
    assert isinstance(matched(ask_for(yolo=True), capabilities=("sandbox:none",)), Fit)


def test_job_without_sandbox_setting_fits_a_factory_without_sandbox() -> None:
    assert isinstance(matched(ask_for(), capabilities=("sandbox:none",)), Fit)


def test_explicit_engine_wins_then_preferred_then_any_of_the_class() -> None:
    assert engines(ask_for(engine="codex", prefers_engine=("claude",))) == ["codex"]
    assert engines(ask_for(prefers_engine=("codex", "devin"))) == ["codex", "aider", "claude"]
    assert engines(ask_for()) == ["aider", "claude", "codex"]
    assert engines(ask_for(engine_class="chat-coder")) == ["copilot"]
    assert engines(ask_for(engine="command")) == ["command"]
    assert engines(ask_for(engine="acp:gemini --acp")) == ["acp:gemini --acp"]


def test_ship_step_needs_only_the_repo() -> None:
    asked = class_of(a_job(ask=ask_for("gpu", engine="devin", repo="notes"), **SHIP))
    fit = match(asked, FactoryTraits.of(a_factory()))
    assert isinstance(fit, Fit)
    assert [choice.engine for choice in fit.engines] == [None]
    assert isinstance(match(asked, FactoryTraits.of(a_factory(may_clone=False))), Rejection)


def test_job_can_require_a_factory_by_name() -> None:
    asked = class_of(a_job(ask=ask_for("factory:mac-1", "os:mac")))
    assert isinstance(match(asked, FactoryTraits.of(a_factory())), Fit)
    assert asked.allows_factory("mac-1")
    assert not asked.allows_factory("mac-2")
    assert not class_of(a_job(ask=ask_for("factory:mac-1", "factory:mac-2"))).allows_factory(
        "mac-1"
    )
    assert class_of(a_job(ask=ask_for("factory:mac-1", "os:mac"), **SHIP)).allows_factory("mac-2")


def test_capability_fit_falls_with_every_unneeded_special_tool() -> None:
    tools = frozenset({"has:xcode", "gpu", "cred:npm", "os:mac", "node:20"})
    assert capability_fit(("has:xcode", "gpu", "cred:npm"), tools) == 1.0
    assert capability_fit(("gpu",), tools) == 0.5
    assert capability_fit((), tools) == 0.25
    assert capability_fit((), frozenset({"os:mac"})) == 1.0
