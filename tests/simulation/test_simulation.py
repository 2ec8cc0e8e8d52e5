"""Every promise holds in every history, and a missing guard breaks some history."""

import subprocess
from pathlib import Path

import pytest

from tests.simulation.mutant_table import findings_without
from tests.simulation.mutants import MUTANTS, Mutant
from tests.simulation.seeds import findings_of, run_seed
from tests.simulation.transcript import transcript

SEEDS = 400
"""The number of seeds per run; each commit runs others (`make simulate` runs the first 20,000)."""
SEEDS_BEYOND = 1_000_000
CHUNK = 20
MUTANT_SEEDS_MAX = 150
"""The number of seeds to try for a planted bug that its recorded seed no longer detects."""

KEPT_SEEDS: dict[tuple[int, str | None], str] = {
    (0, "calm"): "an accepted offer whose lock was taken was retried forever without a delay",
    (4, "interventions"): "a job submitted after its dependency had failed was never told",
    (
        6,
        "interventions",
    ): "the dispatcher raised an error for a factory deregistered at that moment",
    (
        8,
        "pair",
    ): "a new job's second event was older than its first, by another coordinator's clock",
    (14, "storm"): "a repeated request that changed nothing got a new response",
    (19, "race"): "the second of two coordinators handled the next tick of a schedule too early",
    (27, "storm"): "a claim failed, and one of its leases was granted after the response",
    (42, "storm"): "the late end of an old stream hid the new one from the dispatcher",
    (57, "race"): "a factory was offered a job again that it had just declined",
    (73, None): "a repeated claim for two jobs returned them in another order",
    (82, None): "a job was granted after a halt: the guard was read after the decision",
    (135, "interventions"): "a draining factory accepted an offer",
    (154, "interventions"): "a halt between decision and commit had no effect",
    (
        156,
        None,
    ): "two duties shared a leader epoch, and one found it over while the other relied on it",
    (
        166,
        "interventions",
    ): "a claim whose token was revoked meanwhile was retried forever without a delay",
    (173, "interventions"): "a job of a batch depended on one that the same batch superseded",
    (177, "interventions"): "a token that was read during its revocation stayed valid in memory",
    (209, None): "a claim raised an error for a factory deregistered at that moment",
    (327, None): "a job that depends on a child ignored its requeue",
    (1035, None): "an old read of the halt switch arrived last, and the fleet stayed halted",
    (1687, None): "a child was requeued before its composite in one read, and was held forever",
    (43000569, None): "an offer was refused because an exclusion ended on another clock",
    (10935, None): "a composite ignored that a nested composite had started",
}
"""Seeds that failed once, and the bug that each of them found."""


def first_seed() -> int:
    """Return the first seed of this commit; 0 without git."""
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
def test_every_promise_holds_despite_crashes(number: int) -> None:
    for seed in range(FIRST_SEED + number, FIRST_SEED + number + CHUNK):
        assert findings_of(seed) == [], (
            f"replay: python -m tests.simulation --seed {seed} --verbose"
        )


@pytest.mark.parametrize(("seed", "scenario"), KEPT_SEEDS)
def test_formerly_failing_seed_has_no_findings(seed: int, scenario: str | None) -> None:
    assert findings_of(seed, scenario) == [], KEPT_SEEDS[seed, scenario]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_missing_guard_is_found(mutant: Mutant) -> None:
    # A change of the coordinator changes every history: another seed may detect the bug.
    seeds = (mutant.seed, *range(MUTANT_SEEDS_MAX))
    assert any(findings_without(mutant, seed) for seed in seeds), (
        f"no seed fails without {mutant.without}"
    )


def test_seed_replays_the_same_history() -> None:
    assert _log(11) == _log(11)


def _log(seed: int) -> list[str]:
    return transcript(run_seed(seed)[0])
