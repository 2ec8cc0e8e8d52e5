"""Keys perform their actions, with prompts where needed, and show the result."""

import pytest

from gigafactory.domain.errors import Fault, Forbidden, Invalid, Unavailable
from gigafactory.domain.job.job import Stage
from gigafactory.domain.job.lifecycle import ACTIONS
from gigafactory.tui.model.actions import ACTION_KEYS, JOB_ACTIONS, actions_on
from gigafactory.tui.model.source import DashboardSnapshot
from tests.support.scripted_source import ScriptedSource, a_fleet, a_job, attention_item, lease_view
from tests.unit.tui.conftest import watching

NO_ACTIONS = frozenset[str]()
RED = "color(1)"


def one(stage: Stage, **fields: object) -> ScriptedSource:
    job = a_job("fix-login", stage, **fields)
    return ScriptedSource(DashboardSnapshot(jobs=(job,), counts={stage: 1}))


def test_every_lifecycle_action_has_its_own_key() -> None:
    assert {action.name for action in JOB_ACTIONS} == set(ACTIONS)
    assert len({action.key for action in JOB_ACTIONS}) == len(JOB_ACTIONS)
    assert len(ACTION_KEYS) == len(JOB_ACTIONS) + 3


@pytest.mark.parametrize("kind", ["leaf", "composite"])
@pytest.mark.parametrize("stage", list(Stage))
def test_only_actions_allowed_in_the_stage_are_offered(stage: Stage, kind: str) -> None:
    job = a_job("x", stage, kind=kind)
    found = actions_on(job, DashboardSnapshot(), NO_ACTIONS)
    assert {choice.action.name for choice in found} == set(job.actions)


@pytest.mark.parametrize(
    ("stage", "key", "action"),
    [
        (Stage.REVIEW, "a", "approve"),
        (Stage.FAILED, "r", "requeue"),
        (Stage.QUEUED, "t", "promote"),
    ],
)
async def test_reversible_action_runs_at_once(stage: Stage, key: str, action: str) -> None:
    source = one(stage)
    async with watching(source) as terminal:
        await terminal.press(key)
        await terminal.sees(f"done: {action} id-fix-login")
    assert source.calls == [(action, "id-fix-login", "", None)]


@pytest.mark.parametrize(
    ("stage", "key", "action"),
    [
        (Stage.TESTING, "s", "ship"),
        (Stage.QUEUED, "c", "cancel"),
        (Stage.BUILDING, "u", "release"),
    ],
)
async def test_irreversible_action_asks_for_confirmation(
    stage: Stage, key: str, action: str
) -> None:
    source = one(stage)
    async with watching(source) as terminal:
        for no in ("n", "escape"):
            await terminal.press(key)
            assert "y yes" in terminal.text
            await terminal.press(no)
            await terminal.sees("Nothing was done.")
        assert source.calls == []
        await terminal.press(key, "y")
        await terminal.sees(f"done: {action} id-fix-login")
    assert source.calls == [(action, "id-fix-login", "", None)]


@pytest.mark.parametrize(
    ("stage", "key", "action"),
    [
        (Stage.REVIEW, "x", "reject"),
        (Stage.TESTING, "e", "request-changes"),
        (Stage.FAILED, "w", "override-scope"),
    ],
)
async def test_decision_that_needs_a_text_is_not_made_without_one(
    stage: Stage, key: str, action: str
) -> None:
    source = one(stage)
    async with watching(source) as terminal:
        await terminal.press(key, "enter")
        await terminal.sees("A text is required.")
        await terminal.press("escape")
        await terminal.sees("Nothing was done.")
        assert source.calls == []
        await terminal.press(key)
        await terminal.type("it is [b]wrong[/b]")
        await terminal.sees(f"done: {action}")
    assert source.calls == [(action, "id-fix-login", "it is [b]wrong[/b]", None)]


async def test_decision_names_the_commit_on_the_screen() -> None:
    source = ScriptedSource(a_fleet())
    async with watching(source) as terminal:
        await terminal.press("a")
        await terminal.until(lambda: bool(source.calls))
        await terminal.press("down", "s")
        assert "Ship prices? (at fedcba9876)" in terminal.text
        await terminal.press("y")
        await terminal.until(lambda: len(source.calls) == 2)
    assert source.calls == [
        ("approve", "id-terms", "", "0123456789abcdef"),
        ("ship", "id-prices", "", "fedcba9876543210"),
    ]


async def test_refusal_is_shown_with_the_next_step() -> None:
    source = one(Stage.REVIEW)
    source.refusal = Forbidden("user:ann has role viewer; approve needs one of: reviewer")
    async with watching(source, hint=lambda _: "ask an admin") as terminal:
        await terminal.press("a")
        await terminal.sees("approve needs one of: reviewer; ask an")
        assert RED in terminal.style_of("approve needs")
        source.refusal = Invalid("the request", [Fault("reason", "must not be empty")])
        await terminal.press("a")
        await terminal.sees("reason: must not be empty")
        source.refusal = Unavailable("the store is unavailable")
        await terminal.press("a")
        await terminal.sees("the store is unavailable")


async def test_unassigned_key_shows_a_message() -> None:
    source = one(Stage.SHIPPED)
    async with watching(source) as terminal:
        await terminal.press("s")
        await terminal.sees("s does nothing here")
    assert source.calls == []


async def test_factories_are_drained_and_undrained() -> None:
    source = ScriptedSource(a_fleet())
    async with watching(source) as terminal:
        await terminal.press("3", "d", "y")
        await terminal.until(lambda: bool(source.calls))
        await terminal.press("down", "down")
        await terminal.sees("d undrain")
        await terminal.press("d")
        await terminal.until(lambda: len(source.calls) == 2)
    assert source.calls == [("drain", "linux-2", True), ("drain", "mac-1", False)]


async def test_products_are_paused_and_resumed() -> None:
    source = ScriptedSource(a_fleet())
    async with watching(source) as terminal:
        await terminal.press("5", "p")
        await terminal.type("too expensive")
        await terminal.until(lambda: bool(source.calls))
        await terminal.press("end")
        await terminal.sees("p resume")
        await terminal.press("p")
        await terminal.until(lambda: len(source.calls) == 2)
    assert source.calls == [
        ("pause", "notes", True, "too expensive"),
        ("pause", "studio", False, ""),
    ]


async def test_fleet_is_halted_and_resumed() -> None:
    source = ScriptedSource(a_fleet())
    async with watching(source) as terminal:
        await terminal.press("H")
        assert "no new job starts" in terminal.text
        await terminal.type("bad release")
        await terminal.until(lambda: bool(source.calls))
        halted = attention_item("halted", "*", "by user:ann: bad release", "resume")
        source.update(lambda _: DashboardSnapshot(attention=(halted,)))
        await terminal.sees("‖ halted")
        await terminal.press("H", "y")
        await terminal.until(lambda: len(source.calls) == 2)
        await terminal.press("2", "H", "y")
        await terminal.until(lambda: len(source.calls) == 3)
    assert source.calls == [
        ("halt", None, True, "bad release"),
        ("halt", "*", False, ""),
        ("halt", "*", False, ""),
    ]


async def test_unsupported_action_has_no_key() -> None:
    source = ScriptedSource(a_fleet(), supported_actions=NO_ACTIONS)
    async with watching(source) as terminal:
        for view, key in (("3", "d"), ("5", "p"), ("1", "H")):
            await terminal.press(view, key)
            await terminal.sees(f"{key} does nothing here")
        await terminal.press("question_mark")
        assert "halt or resume" not in terminal.text
    assert source.calls == []


async def test_attention_items_are_decided_in_their_list() -> None:
    source = ScriptedSource(a_fleet())
    async with watching(source) as terminal:
        await terminal.press("2", "down", "a")
        await terminal.until(lambda: bool(source.calls))
        await terminal.press("down", "down", "r")
        await terminal.until(lambda: len(source.calls) == 2)
    assert source.calls == [
        ("approve", "id-terms", "", "0123456789abcdef"),
        ("requeue", "id-film", "", None),
    ]


async def test_job_is_decided_on_its_own_screen() -> None:
    source = one(Stage.BUILDING, lease=lease_view("mac-1"), lease_epoch=1)
    async with watching(source) as terminal:
        await terminal.press("enter")
        await terminal.sees("o preempt")
        await terminal.press("o")
        await terminal.type("")
        await terminal.sees("done: preempt")
    assert source.calls == [("preempt", "id-fix-login", "", None)]
