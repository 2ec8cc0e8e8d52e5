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
    """The table, with so many seeds played for a bug that its own does not notice; also written."""
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        rows = list(pool.map(_row, range(len(MUTANTS)), [seeds] * len(MUTANTS)))
    head = (
        "Each guard is taken out in turn, and the suite demands that a history notices.\n"
        "`python -m tests.simulation --mutants` makes this table: a seed of the named scenario that"
        "\nis red without the guard, and the promise that it sees broken first.\n\n"
        "| without | scenario | seed | sees this broken |\n"
        "| --- | --- | --- | --- |\n"
    )
    text = f"{HEADING}\n\n{head}" + "".join(rows)
    page = PAGE.read_text()
    PAGE.write_text(page[: page.index(HEADING)] + text)
    return text


def _row(number: int, seeds: int) -> str:
    mutant = MUTANTS[number]
    for seed in (mutant.seed, *range(seeds)):
        if found := noticed(mutant, seed):
            return f"| {mutant.without} | {mutant.scenario} | {seed} | {promise(found)} |\n"
    return f"| {mutant.without} | {mutant.scenario} | none of {seeds} | nothing |\n"
