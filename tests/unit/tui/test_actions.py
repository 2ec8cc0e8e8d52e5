"""Keys do what they say, ask before what cannot be taken back, and say what came of it."""

import pytest

from gigafactory.domain.errors import Fault, Forbidden, Invalid, Unavailable
from gigafactory.domain.job.job import Stage
from gigafactory.domain.job.lifecycle import ACTIONS
from gigafactory.tui.model.actions import KEYS, ON_JOBS, choices
from gigafactory.tui.model.source import Snapshot
from tests.support.scripted_source import ScriptedPlane, a_fleet, a_job, a_note, held
from tests.unit.tui.conftest import watching

NOTHING = frozenset[str]()
RED = "color(1)"


def one(stage: Stage, **fields: object) -> ScriptedPlane:
    job = a_job("fix-login", stage, **fields)
    return ScriptedPlane(Snapshot(jobs=(job,), counts={stage: 1}))


def test_every_action_of_the_lifecycle_has_a_key_of_its_own() -> None:
    assert {deed.action for deed in ON_JOBS} == set(ACTIONS)
    assert len({deed.key for deed in ON_JOBS}) == len(ON_JOBS)
    assert len(KEYS) == len(ON_JOBS) + 3


@pytest.mark.parametrize("kind", ["leaf", "composite"])
@pytest.mark.parametrize("stage", list(Stage))
def test_what_the_stage_does_not_allow_is_not_offered(stage: Stage, kind: str) -> None:
    job = a_job("x", stage, kind=kind)
    found = choices(job, Snapshot(), NOTHING)
    assert {choice.deed.action for choice in found} == set(job.actions)


@pytest.mark.parametrize(
    ("stage", "key", "action"),
    [
        (Stage.REVIEW, "a", "approve"),
        (Stage.FAILED, "r", "requeue"),
        (Stage.QUEUED, "t", "promote"),
    ],
)
async def test_a_key_does_at_once_what_can_be_taken_back(
    stage: Stage, key: str, action: str
) -> None:
    plane = one(stage)
    async with watching(plane) as terminal:
        await terminal.press(key)
        await terminal.sees(f"done: {action} id-fix-login")
    assert plane.asked == [(action, "id-fix-login", "", None)]


@pytest.mark.parametrize(
    ("stage", "key", "action"),
    [
        (Stage.TESTING, "s", "ship"),
        (Stage.QUEUED, "c", "cancel"),
        (Stage.BUILDING, "u", "release"),
    ],
)
async def test_what_cannot_be_taken_back_is_asked_first(
    stage: Stage, key: str, action: str
) -> None:
    plane = one(stage)
    async with watching(plane) as terminal:
        for no in ("n", "escape"):
            await terminal.press(key)
            assert "y yes" in terminal.text
            await terminal.press(no)
            await terminal.sees("Nothing was done.")
        assert plane.asked == []
        await terminal.press(key, "y")
        await terminal.sees(f"done: {action} id-fix-login")
    assert plane.asked == [(action, "id-fix-login", "", None)]


@pytest.mark.parametrize(
    ("stage", "key", "action"),
    [
        (Stage.REVIEW, "x", "reject"),
        (Stage.TESTING, "e", "request-changes"),
        (Stage.FAILED, "w", "override-scope"),
    ],
)
async def test_a_decision_that_needs_words_is_not_made_without(
    stage: Stage, key: str, action: str
) -> None:
    plane = one(stage)
    async with watching(plane) as terminal:
        await terminal.press(key, "enter")
        await terminal.sees("It needs a word.")
        await terminal.press("escape")
        await terminal.sees("Nothing was done.")
        assert plane.asked == []
        await terminal.press(key)
        await terminal.type("it is [b]wrong[/b]")
        await terminal.sees(f"done: {action}")
    assert plane.asked == [(action, "id-fix-login", "it is [b]wrong[/b]", None)]


async def test_a_decision_is_about_the_commit_that_was_on_the_screen() -> None:
    plane = ScriptedPlane(a_fleet())
    async with watching(plane) as terminal:
        await terminal.press("a")
        await terminal.until(lambda: bool(plane.asked))
        await terminal.press("down", "s")
        assert "Ship prices? (at fedcba9876)" in terminal.text
        await terminal.press("y")
        await terminal.until(lambda: len(plane.asked) == 2)
    assert plane.asked == [
        ("approve", "id-terms", "", "0123456789abcdef"),
        ("ship", "id-prices", "", "fedcba9876543210"),
    ]


async def test_a_refusal_is_told_with_what_to_do_next() -> None:
    plane = one(Stage.REVIEW)
    plane.refuses = Forbidden("user:ann has role viewer; approve needs one of: reviewer")
    async with watching(plane, hint=lambda _: "ask an admin") as terminal:
        await terminal.press("a")
        await terminal.sees("approve needs one of: reviewer; ask an")
        assert RED in terminal.style_of("approve needs")
        plane.refuses = Invalid("the request", [Fault("reason", "must not be empty")])
        await terminal.press("a")
        await terminal.sees("reason: must not be empty")
        plane.refuses = Unavailable("the store is away")
        await terminal.press("a")
        await terminal.sees("the store is away")


async def test_a_key_that_does_nothing_says_so() -> None:
    plane = one(Stage.SHIPPED)
    async with watching(plane) as terminal:
        await terminal.press("s")
        await terminal.sees("s does nothing here")
    assert plane.asked == []


async def test_machines_are_drained_and_take_work_again() -> None:
    plane = ScriptedPlane(a_fleet())
    async with watching(plane) as terminal:
        await terminal.press("3", "d", "y")
        await terminal.until(lambda: bool(plane.asked))
        await terminal.press("down", "down")
        await terminal.sees("d undrain")
        await terminal.press("d")
        await terminal.until(lambda: len(plane.asked) == 2)
    assert plane.asked == [("drain", "linux-2", True), ("drain", "mac-1", False)]


async def test_products_are_paused_and_resumed() -> None:
    plane = ScriptedPlane(a_fleet())
    async with watching(plane) as terminal:
        await terminal.press("5", "p")
        await terminal.type("too dear")
        await terminal.until(lambda: bool(plane.asked))
        await terminal.press("end")
        await terminal.sees("p resume")
        await terminal.press("p")
        await terminal.until(lambda: len(plane.asked) == 2)
    assert plane.asked == [
        ("pause", "notes", True, "too dear"),
        ("pause", "studio", False, ""),
    ]


async def test_everything_is_halted_and_goes_on() -> None:
    plane = ScriptedPlane(a_fleet())
    async with watching(plane) as terminal:
        await terminal.press("H")
        assert "nothing more is given out" in terminal.text
        await terminal.type("bad release")
        await terminal.until(lambda: bool(plane.asked))
        halted = a_note("halted", "*", "by user:ann: bad release", "resume")
        plane.now_shows(lambda _: Snapshot(matters=(halted,)))
        await terminal.sees("‖ halted")
        await terminal.press("H", "y")
        await terminal.until(lambda: len(plane.asked) == 2)
        await terminal.press("2", "H", "y")
        await terminal.until(lambda: len(plane.asked) == 3)
    assert plane.asked == [
        ("halt", None, True, "bad release"),
        ("halt", "*", False, ""),
        ("halt", "*", False, ""),
    ]


async def test_what_a_plane_does_not_offer_has_no_key() -> None:
    plane = ScriptedPlane(a_fleet(), offers=NOTHING)
    async with watching(plane) as terminal:
        for view, key in (("3", "d"), ("5", "p"), ("1", "H")):
            await terminal.press(view, key)
            await terminal.sees(f"{key} does nothing here")
        await terminal.press("question_mark")
        assert "halt everything" not in terminal.text
    assert plane.asked == []


async def test_what_waits_for_a_person_is_decided_where_it_is_listed() -> None:
    plane = ScriptedPlane(a_fleet())
    async with watching(plane) as terminal:
        await terminal.press("2", "down", "a")
        await terminal.until(lambda: bool(plane.asked))
        await terminal.press("down", "down", "r")
        await terminal.until(lambda: len(plane.asked) == 2)
    assert plane.asked == [
        ("approve", "id-terms", "", "0123456789abcdef"),
        ("requeue", "id-film", "", None),
    ]


async def test_a_job_is_decided_on_its_own_screen() -> None:
    plane = one(Stage.BUILDING, lease=held("mac-1"), lease_epoch=1)
    async with watching(plane) as terminal:
        await terminal.press("enter")
        await terminal.sees("o hand back")
        await terminal.press("o")
        await terminal.type("")
        await terminal.sees("done: preempt")
    assert plane.asked == [("preempt", "id-fix-login", "", None)]
