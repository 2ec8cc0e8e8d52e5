"""Which planted bugs are noticed, by which promise, how soon: the table of docs/simulation.md."""

import os
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tests.simulation.mutants import MUTANTS, Mutant
from tests.simulation.seeds import findings_of

PAGE = Path(__file__).parents[2] / "docs" / "simulation.md"
HEADING = "## Planted bugs"


def noticed(mutant: Mutant, seed: int) -> list[str]:
    """What the judge finds in a seed when this guard is missing."""
    with mutant.plant():
        return findings_of(seed, mutant.scenario)


def promise(findings: list[str]) -> str:
    """The promise that was seen to be broken first."""
    kept = [found.partition(":")[0] for found in findings]
    named = [name for name in kept if name != "broken"]
    return (named or kept)[0]


def table(seeds: int) -> str:
    """The table over so many seeds of each bug's scenario; also written to the page."""
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        rows = list(pool.map(_row, range(len(MUTANTS)), [seeds] * len(MUTANTS)))
    head = (
        "Each guard is taken out in turn, and the suite demands that a history notices.\n"
        f"`python -m tests.simulation --mutants --seeds {seeds}` makes this table:"
        f" of {seeds} seeds in the\nnamed scenario, how many are red, and which promise"
        " the first of them sees broken.\n\n"
        "| without | noticed by promise | scenario | first red seed | red |\n"
        "| --- | --- | --- | --- | --- |\n"
    )
    text = f"{HEADING}\n\n{head}" + "".join(rows)
    page = PAGE.read_text()
    PAGE.write_text(page[: page.index(HEADING)] + text)
    return text


def _row(number: int, seeds: int) -> str:
    mutant = MUTANTS[number]
    played = sorted({*range(seeds), mutant.seed})
    found = {seed: findings for seed in played if (findings := noticed(mutant, seed))}
    first = min(found, default=None)
    by = promise(found[first]) if first is not None else "nothing"
    share = 100 * sum(seed < seeds for seed in found) / seeds
    red = f"{share:.0f} %" if share >= 1 else "under 1 %"
    return f"| {mutant.without} | {by} | {mutant.scenario} | {first} | {red} |\n"
