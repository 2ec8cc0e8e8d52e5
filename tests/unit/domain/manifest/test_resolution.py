"""Resolution of settings: the job overrides the profile, which overrides the default."""

from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gigafactory.domain.manifest.manifest import JobBudget, Manifest, Retry, ReviewPolicy
from gigafactory.domain.manifest.profile import Profile
from gigafactory.domain.manifest.resolution import resolve

SILENT = Profile(name="silent")
OUTSPOKEN = Profile(
    name="outspoken",
    version=3,
    persona="You are.",
    capabilities=("gpu", "node>=20"),
    default_verify="make test",
    default_setup="make setup",
    engine_class="chat-coder",
    prefers_engine=("copilot",),
    model="small",
    allowed_scope=("src/**",),
    review_policy=ReviewPolicy("manual"),
    ship="pr",
    ship_policy="auto",
    merge_style="squash",
    wait_merge=True,
    verify_rounds=0,
    stall=timedelta(0),
    sandbox="strict",
    scope_enforcement="warn",
)


def test_job_without_settings_gets_the_defaults() -> None:
    assert resolve(Manifest(name="a"), None, product="notes") == Manifest(
        name="a",
        title="a",
        product="notes",
        engine_class="agentic-coder",
        priority="medium",
        deps_mode="hard",
        on_dep_failure="wait",
        setup="auto",
        verify_rounds=1,
        timeout=timedelta(hours=2),
        stall=timedelta(minutes=15),
        retry=Retry(
            0,
            timedelta(seconds=30),
            ("timeout", "crash", "verify_failed", "setup_failed", "overloaded"),
        ),
        review_policy=ReviewPolicy("manual"),
        ship="merge",
        ship_policy="manual",
        merge_style="merge",
        wait_merge=False,
        yolo=False,
        kind="leaf",
        scope_enforcement="deny",
    )


def test_profile_fills_settings_missing_in_the_job() -> None:
    resolved = resolve(Manifest(profile="outspoken"), OUTSPOKEN, product="notes")
    assert resolved.profile == "outspoken@3"
    assert resolved.persona == "You are."
    assert resolved.setup == "make setup"
    assert resolved.verify == "make test"
    assert resolved.engine_class == "chat-coder"
    assert resolved.prefers_engine == ("copilot",)
    assert resolved.model == "small"
    assert resolved.allowed_scope == ("src/**",)
    assert resolved.review_policy == ReviewPolicy("manual")
    assert (resolved.ship, resolved.ship_policy) == ("pr", "auto")
    assert (resolved.merge_style, resolved.wait_merge) == ("squash", True)
    assert (resolved.verify_rounds, resolved.stall) == (0, timedelta(0))
    assert (resolved.sandbox, resolved.scope_enforcement) == ("strict", "warn")


def test_manifest_overrides_profile_defaults() -> None:
    job = Manifest(
        product="other",
        verify="make check",
        engine_class="agentic-coder",
        allowed_scope=("docs/**",),
        review_policy=ReviewPolicy("auto"),
        ship="none",
        wait_merge=False,
        verify_rounds=2,
        stall=timedelta(minutes=1),
        retry=Retry(2, timedelta(0), ("crash",)),
        timeout=timedelta(minutes=5),
    )
    resolved = resolve(job, OUTSPOKEN, product="notes")
    for field in job.__struct_fields__:
        asked = getattr(job, field)
        if asked:
            assert getattr(resolved, field) == asked
    assert resolved.wait_merge is False


def test_required_capabilities_of_job_and_profile_are_combined() -> None:
    resolved = resolve(Manifest(capabilities=("os:mac", "gpu")), OUTSPOKEN, product="notes")
    assert resolved.capabilities == ("os:mac", "gpu", "node>=20")


@pytest.mark.parametrize(
    ("job", "timeout"),
    [
        (Manifest(), timedelta(hours=2)),
        (Manifest(budget=JobBudget(usd_nanos=1)), timedelta(hours=2)),
        (Manifest(budget=JobBudget(wall=timedelta(hours=9))), None),
        (Manifest(timeout=timedelta(minutes=1)), timedelta(minutes=1)),
    ],
)
def test_run_is_limited_by_the_timeout_or_the_wall_budget(
    job: Manifest, timeout: timedelta | None
) -> None:
    assert resolve(job, None, product="notes").timeout == timeout


@pytest.mark.parametrize(
    ("job", "profile", "mode"),
    [
        (Manifest(), None, "manual"),
        (Manifest(verify="make"), None, "auto"),
        (Manifest(verify="make"), SILENT, "auto"),
        (Manifest(verify="make"), OUTSPOKEN, "manual"),
        (Manifest(review_policy=ReviewPolicy("auto")), None, "auto"),
        (Manifest(), Profile(name="a", default_verify="make"), "auto"),
    ],
)
def test_review_is_automatic_only_with_a_verify_and_no_other_policy(
    job: Manifest, profile: Profile | None, mode: str
) -> None:
    policy = resolve(job, profile, product="notes").review_policy
    assert policy is not None
    assert policy.mode == mode


def test_command_without_an_engine_selects_the_command_engine() -> None:
    assert resolve(Manifest(command="make"), None, product="notes").engine == "command"
    assert resolve(Manifest(engine="pi"), None, product="notes").engine == "pi"


@settings(deadline=None)
@given(
    st.builds(
        Manifest,
        verify=st.sampled_from([None, "make"]),
        capabilities=st.lists(st.sampled_from(["gpu", "os:mac", "a"]), unique=True).map(tuple),
        stall=st.sampled_from([None, timedelta(0), timedelta(1)]),
        budget=st.sampled_from([None, JobBudget(1), JobBudget(wall=timedelta(1))]),
        retry=st.sampled_from([None, Retry(1), Retry(1, timedelta(0), ("crash",))]),
    ),
    st.sampled_from([None, SILENT, OUTSPOKEN]),
)
def test_resolving_is_idempotent(job: Manifest, profile: Profile | None) -> None:
    once = resolve(job, profile, product="notes")
    assert resolve(once, profile, product="other") == once
