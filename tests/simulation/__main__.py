"""Play many seeds on all cores, replay one, or see which planted bugs are noticed."""

import argparse
import os
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor

from tests.simulation.planted import table
from tests.simulation.seeds import findings_of, lived
from tests.simulation.story import story
from tests.simulation.weather import SCENARIOS

CHUNK = 50


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; 1 when some seed is red."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=2000, help="how many seeds to play, from 0")
    parser.add_argument("--seed", type=int, help="replay this one, and tell what happened")
    parser.add_argument("--scenario", choices=sorted(SCENARIOS), help="one weather for all seeds")
    parser.add_argument("--verbose", action="store_true", help="tell a replayed seed's whole story")
    parser.add_argument("--mutants", action="store_true", help="print the table of planted bugs")
    chosen = parser.parse_args(arguments)
    if chosen.mutants:
        print(table(chosen.seeds))  # noqa: T201 - printing is what a command does
        return 0
    if chosen.seed is not None:
        return _replay(chosen.seed, chosen.scenario, verbose=chosen.verbose)
    return _play(chosen.seeds, chosen.scenario)


def _replay(seed: int, scenario: str | None, *, verbose: bool) -> int:
    world, findings = lived(seed, scenario)
    if verbose:
        _say(*world.history.notes, *story(world))
    _say(*(findings or [f"seed {seed} keeps every promise"]))
    return bool(findings)


def _play(seeds: int, scenario: str | None) -> int:
    red = 0
    chunks = [range(n, min(n + CHUNK, seeds)) for n in range(0, seeds, CHUNK)]
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        results = pool.map(_chunk, chunks, [scenario] * len(chunks))
        for done, failures in enumerate(results, 1):
            for seed, findings in failures:
                red += 1
                again = f" --scenario {scenario}" if scenario else ""
                _say(f"seed {seed} is red: {findings[0]}")
                _say(f"    replay: python -m tests.simulation --seed {seed}{again} --verbose")
            if sys.stderr.isatty() or not done % 20:
                print(f"{done * CHUNK} of {seeds} seeds, {red} red", file=sys.stderr)  # noqa: T201
    _say(f"{seeds} seeds, {red} red")
    return bool(red)


def _chunk(seeds: range, scenario: str | None) -> list[tuple[int, list[str]]]:
    found = ((seed, findings_of(seed, scenario)) for seed in seeds)
    return [(seed, findings) for seed, findings in found if findings]


def _say(*lines: str) -> None:
    print(*lines, sep="\n")  # noqa: T201 - printing is what a command does


if __name__ == "__main__":
    sys.exit(main())
