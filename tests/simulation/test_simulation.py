"""Every promise holds in every history; and whenever a guard is missing, some history shows it."""

import subprocess
from pathlib import Path

import pytest

from tests.simulation.mutants import MUTANTS, Mutant
from tests.simulation.planted import findings_without
from tests.simulation.seeds import findings_of, lived
from tests.simulation.story import story

SEEDS = 400
"""Seeds of one run; each commit plays others (`make simulate` plays the first 20,000)."""
SEEDS_BEYOND = 1_000_000
CHUNK = 20
LOOKED_AT_MAX = 150
"""Seeds that are played for a planted bug when the one that is written down does not notice."""

KEPT_SEEDS: dict[tuple[int, str | None], str] = {
    (0, "calm"): "a factory that accepted a job whose lock was taken was tried for ever, at once",
    (4, "meddling"): "a job handed in after its dependency had failed never heard of it",
    (6, "meddling"): "the dispatcher broke on a factory that was deregistered at that moment",
    (
        8,
        "pair",
    ): "a new job's second event was older than its first, by another coordinator's clock",
    (14, "storm"): "a repeated request that changed nothing got a new response",
    (19, "race"): "of two coordinators the second served the next tick of a schedule at once",
    (27, "storm"): "a claim failed, and one of its leases was granted after the answer",
    (42, "storm"): "the late end of an old stream made the fleet deaf to the new one",
    (73, None): "a claim for two jobs, asked again, named them the other way round",
    (82, None): "a job was granted after a halt: the guard was read after the choice was made",
    (135, "meddling"): "a factory that was told to drain accepted an offer",
    (154, "meddling"): "a halt that came between choice and commit was overlooked",
    (156, None): "two duties shared a reign, and one found it over while the other counted on it",
    (166, "meddling"): "a claim whose token was revoked meanwhile was tried for ever, at once",
    (173, "meddling"): "a job of a batch waited for one that the same batch superseded",
    (177, "meddling"): "a token that was looked up while it was revoked stayed good in memory",
    (209, None): "a claim broke on a factory that was deregistered at that moment",
    (327, None): "a job that depends on a child did not learn of its requeue",
    (1035, None): "an older look at the halt switch came in last, and the fleet stayed halted",
    (1687, None): "a child came back before its composite did, in one look, and was held for ever",
    (10935, None): "a composite did not hear that the composite below it had started",
}
"""Seeds that were red once, and what each of them found."""


def first_seed() -> int:
    """Return where the seeds of this commit begin; 0 where there is no git."""
    try:
        commit = subprocess.run(
            ["git", "rev-parse", "HEAD"],
            cwd=Path(__file__).parent,
            capture_output=True,
            check=True,
            text=True,
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return 0
    return int(commit, 16) % SEEDS_BEYOND


FIRST_SEED = first_seed()


@pytest.mark.parametrize("number", range(0, SEEDS, CHUNK))
def test_every_promise_is_kept_whatever_crashes(number: int) -> None:
    for seed in range(FIRST_SEED + number, FIRST_SEED + number + CHUNK):
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
    assert any(findings_without(mutant, seed) for seed in seeds), (
        f"no seed fails without {mutant.without}"
    )


def test_a_seed_is_the_same_history_each_time() -> None:
    assert _log(11) == _log(11)


def _log(seed: int) -> list[str]:
    return story(lived(seed)[0])
