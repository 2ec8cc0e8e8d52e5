"""Unroutable jobs: the quick answer is that of the explanation, and both are quick."""

from time import thread_time

from hypothesis import given
from hypothesis import strategies as st

from gigafactory.domain.fleet.factory import EngineSeats
from gigafactory.domain.fleet.unroutable import (
    SUGGESTIONS_MAX,
    is_unroutable,
    unroutable_reasons,
)
from gigafactory.domain.job.job import Ask
from tests.support.builders import a_factory
from tests.support.small_fleet import a_fleet, ask_for

TOKENS = ("os:mac", "os:linux", "node:20", "has:figma", "sandbox:none", "sandbox:workspace")
WANTED = (*TOKENS[:4], "node>=22", "factory:f0", "factory:nobody", "gpu")


@given(
    offered=st.lists(st.sets(st.sampled_from(TOKENS)), max_size=3),
    needs=st.sets(st.sampled_from(WANTED), max_size=3),
    engine=st.sampled_from([None, "claude", "codex"]),
    yolo=st.booleans(),
    product=st.sampled_from(["notes", "other"]),
)
def test_a_job_is_unroutable_if_there_are_reasons(
    offered: list[set[str]], needs: set[str], engine: str | None, *, yolo: bool, product: str
) -> None:
    fleet = a_fleet(
        *(
            a_factory(
                id=f"f{number}",
                capabilities=tuple(tokens),
                products=("notes",) if number else ("*",),
                engines={"claude": EngineSeats(version="2", seats=1)},
            )
            for number, tokens in enumerate(offered)
        )
    )
    if offered:
        fleet.remove("f0")
    ask = Ask(needs=tuple(sorted(needs)), engine=engine, yolo=yolo)
    assert is_unroutable(ask, product, fleet) == bool(unroutable_reasons(ask, product, fleet))


def test_hostile_capabilities_are_explained_quickly() -> None:
    # One such job once took three minutes for each list that showed it.
    known = tuple(f"x:{'a' * (100 + number % 90)}{number:03}" for number in range(499))
    fleet = a_fleet(a_factory(capabilities=known))
    ask = ask_for(*(f"x:{'a' * 180}b{number:03}" for number in range(100)))
    before = thread_time()
    assert is_unroutable(ask, "notes", fleet)
    reasons = unroutable_reasons(ask, "notes", fleet)
    assert thread_time() - before < 0.25
    assert sum("nearest known" in reason for reason in reasons) == SUGGESTIONS_MAX
    assert len(reasons) == 100
