"""Run many seeds on all cores, replay one, or list the seeds that detect planted bugs."""

import argparse
import os
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor

from tests.simulation.faults import SCENARIOS
from tests.simulation.mutant_table import table
from tests.simulation.seeds import findings_of, run_seed
from tests.simulation.transcript import transcript

CHUNK = 50


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return 1 if a seed fails."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument(
        "--seeds", type=int, default=2000, help="the number of seeds to run, from 0"
    )
    parser.add_argument("--seed", type=int, help="replay this seed and print its findings")
    parser.add_argument(
        "--scenario", choices=sorted(SCENARIOS), help="use these fault rates for all seeds"
    )
    parser.add_argument(
        "--verbose", action="store_true", help="print all requests and events of a replayed seed"
    )
    parser.add_argument("--mutants", action="store_true", help="print the table of planted bugs")
    chosen = parser.parse_args(arguments)
    if chosen.mutants:
        print(table(chosen.seeds))  # noqa: T201 - a command prints
        return 0
    if chosen.seed is not None:
        return _replay(chosen.seed, chosen.scenario, verbose=chosen.verbose)
    return _run_seeds(chosen.seeds, chosen.scenario)


def _replay(seed: int, scenario: str | None, *, verbose: bool) -> int:
    simulation, findings = run_seed(seed, scenario)
    if verbose:
        _print(*simulation.history.notes, *transcript(simulation))
    _print(*(findings or [f"seed {seed} keeps every promise"]))
    return bool(findings)


def _run_seeds(seeds: int, scenario: str | None) -> int:
    failed = 0
    chunks = [range(n, min(n + CHUNK, seeds)) for n in range(0, seeds, CHUNK)]
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        results = pool.map(_chunk, chunks, [scenario] * len(chunks))
        for done, failures in enumerate(results, 1):
            for seed, findings in failures:
                failed += 1
                again = f" --scenario {scenario}" if scenario else ""
                _print(f"seed {seed} fails: {findings[0]}")
                _print(f"    replay: python -m tests.simulation --seed {seed}{again} --verbose")
            if sys.stderr.isatty() or not done % 20:
                print(f"{done * CHUNK} of {seeds} seeds, {failed} failed", file=sys.stderr)  # noqa: T201
    _print(f"{seeds} seeds, {failed} failed")
    return bool(failed)


def _chunk(seeds: range, scenario: str | None) -> list[tuple[int, list[str]]]:
    found = ((seed, findings_of(seed, scenario)) for seed in seeds)
    return [(seed, findings) for seed, findings in found if findings]


def _print(*lines: str) -> None:
    print(*lines, sep="\n")  # noqa: T201 - a command prints


if __name__ == "__main__":
    sys.exit(main())
