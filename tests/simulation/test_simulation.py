"""Every promise holds in every history; and whenever a guard is missing, some history shows it."""

import pytest

from tests.simulation.mutants import MUTANTS, Mutant
from tests.simulation.planted import noticed
from tests.simulation.seeds import findings_of, lived
from tests.simulation.story import story

SEEDS = 2000
CHUNK = 25
LOOKED_AT_MAX = 300
"""Seeds that are played for a planted bug when the one that is written down does not notice."""

KEPT_SEEDS: dict[tuple[int, str | None], str] = {}
"""Seeds that were red once, and what each of them found."""


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_every_promise_is_kept_whoever_crashes(first: int) -> None:
    for seed in range(first, first + CHUNK):
        assert findings_of(seed) == [], (
            f"replay: python -m tests.simulation --seed {seed} --verbose"
        )


@pytest.mark.parametrize(("seed", "scenario"), KEPT_SEEDS)
def test_what_was_red_once_stays_green(seed: int, scenario: str | None) -> None:
    assert findings_of(seed, scenario) == [], KEPT_SEEDS[seed, scenario]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_missing_guard_is_noticed(mutant: Mutant) -> None:
    # A change of the coordinator changes every history: then another seed may have to notice.
    seeds = (mutant.seed, *range(LOOKED_AT_MAX))
    assert any(noticed(mutant, seed) for seed in seeds), f"nothing notices {mutant.without} missing"


def test_a_seed_is_the_same_history_each_time() -> None:
    assert _log(11) == _log(11)


def _log(seed: int) -> list[str]:
    return story(lived(seed)[0])
