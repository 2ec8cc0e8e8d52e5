"""The table of planted bugs in docs/simulation.md: the seed and the broken promise of each."""

import os
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tests.simulation.mutants import MUTANTS, Mutant
from tests.simulation.seeds import findings_of

PAGE = Path(__file__).parents[2] / "docs" / "simulation.md"
HEADING = "## Planted bugs"


def findings_without(mutant: Mutant, seed: int) -> list[str]:
    """Return the checker's findings in a seed without this guard."""
    with mutant.plant():
        return findings_of(seed, mutant.scenario)


def promise(findings: list[str]) -> str:
    """Return the promise that was broken first."""
    promises = [findings.partition(":")[0] for findings in findings]
    named = [name for name in promises if name != "broken"]
    return (named or promises)[0]


def table(seeds: int) -> str:
    """Write the table to the page and return it; try more seeds if a bug's own seed passes."""
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        rows = list(pool.map(_row, range(len(MUTANTS)), [seeds] * len(MUTANTS)))
    head = (
        "Each guard is removed in turn, and the suite requires that a history finds it. `python -m"
        " tests.simulation --mutants` generates this table: the removed guard, the scenario, a seed"
        "\nthat fails without the guard, and the promise that breaks first.\n\n"
        "| removed guard | scenario | seed | broken promise |\n"
        "| --- | --- | --- | --- |\n"
    )
    text = f"{HEADING}\n\n{head}" + "".join(rows)
    page = PAGE.read_text()
    PAGE.write_text(page[: page.index(HEADING)] + text)
    return text


def _row(number: int, seeds: int) -> str:
    mutant = MUTANTS[number]
    for seed in (mutant.seed, *range(seeds)):
        if findings := findings_without(mutant, seed):
            return f"| {mutant.without} | {mutant.scenario} | {seed} | {promise(findings)} |\n"
    return f"| {mutant.without} | {mutant.scenario} | none of {seeds} | nothing |\n"
