"""Score the model of learned routing on recorded outcomes of coding agents, split by task.

    python -m tools.score_routing --data DIR [--held-out DIR] [--predictions FILE]

DIR holds `runs_*.csv.gz`, one row a run: source, task_id, repo, language, job_type, stmt_words,
agent, model, engine, attempt, success, and cost_usd if known. Nothing is stored.
Without a held-out folder, each task is predicted from the others of its source (five folds).
Sources are never combined: their names, prices and rules differ.
"""

import argparse
import csv
import gzip
import hashlib
import math
import random
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from gigafactory.domain.insights.observation import (
    COST_FLOOR_NANO_USD,
    NO_OBSERVATION,
    Cell,
    Observation,
    RoutingChoice,
    TaskFeatures,
    add_observations,
)
from gigafactory.domain.insights.routing_model import Prediction, RoutingModel, fit_model
from gigafactory.domain.job.features import size_of

FOLDS = 5
FEW = 3
"""In a fleet, one or two engines try a job, not all of them."""
DRAWS = 1000
CERTAIN = 1e-6

Row = Mapping[str, str]


class Scored(NamedTuple):
    """A run predicted without its own task."""

    row: Row
    found: Prediction
    base: float
    engine: float


def rows_of(folder: Path) -> list[Row]:
    """Return all runs in a folder."""
    found: list[Row] = []
    for path in sorted(folder.glob("runs_*.csv.gz")):
        with gzip.open(path, "rt", newline="") as file:
            found += csv.DictReader(file)
    return found


def draw(text: str, parts: int) -> int:
    """Return a stable number below `parts` for a text."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8]) % parts


def cell_of(row: Row) -> Cell:
    """Return the features of a run that are known before it starts."""
    size = size_of(int(row["stmt_words"])) if row["stmt_words"] else None
    language = row["language"] if row["language"] not in {"", "none"} else None
    task = TaskFeatures(row["source"], row["repo"] or None, row["job_type"] or None, language, size)
    return Cell(task, RoutingChoice(row["agent"], None, row["model"]))


def lesson_of(row: Row) -> Observation:
    """Return the success and cost of a run; few records have a duration."""
    usd = row["cost_usd"]
    log_nanos = round(1000 * math.log(max(COST_FLOOR_NANO_USD, float(usd) * 1e9))) if usd else 0
    return Observation(
        tries=1,
        passes=int(row["success"]),
        priced=int(bool(usd)),
        log_nanos=log_nanos,
        log_nanos_squared=log_nanos**2,
    )


def model_of(rows: Iterable[Row]) -> RoutingModel:
    """Build the model of these runs in the same way as the fleet."""
    cells: dict[Cell, Observation] = {}
    for row in rows:
        cell = cell_of(row)
        cells[cell] = add_observations(cells.get(cell, NO_OBSERVATION), lesson_of(row))
    return fit_model(cells.items())


def thinned(rows: Sequence[Row]) -> list[Row]:
    """Keep a few engines per task, chosen by a hash of both names."""
    engines = max(1, len({row["engine"] for row in rows}))
    name = "{task_id}/{job_type}/{engine}"
    kept = [row for row in rows if draw(name.format(**row), engines) < FEW]
    return [row for row in kept if row["attempt"] in {"", "1"}]


def scored(train: Sequence[Row], test: Sequence[Row]) -> Iterator[Scored]:
    """Predict runs from other runs."""
    model = model_of(train)
    base = (sum(int(row["success"]) for row in train) + 1) / (len(train) + 2)
    rates: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for row in train:
        rates[row["engine"]][0] += int(row["success"])
        rates[row["engine"]][1] += 1
    for row in test:
        cell = cell_of(row)
        passes, tries = rates.get(row["engine"], (0, 0))
        engine = (passes + base) / (tries + 1)
        yield Scored(row, model.predict(cell.task, cell.choice), base, engine)


def crossed(rows: Sequence[Row], *, few: bool) -> list[Scored]:
    """Predict every run from the tasks of the other parts."""
    found: list[Scored] = []
    for part in range(FOLDS):
        train = [row for row in rows if draw(row["task_id"], FOLDS) != part]
        test = [row for row in rows if draw(row["task_id"], FOLDS) == part]
        found += scored(thinned(train) if few else train, test)
    return found


def losses(shares: Iterable[tuple[float, int]]) -> tuple[float, float]:
    """Return the mean log-loss and the Brier score."""
    logs, squares = [], []
    for share, passed in shares:
        safe = min(1.0 - CERTAIN, max(CERTAIN, share))
        logs.append(-math.log(safe if passed else 1.0 - safe))
        squares.append((share - passed) ** 2)
    return sum(logs) / len(logs), sum(squares) / len(squares)


class Routed(NamedTuple):
    """The success of each policy on one task."""

    mix: float
    single: float
    learned: float


def routed(found: Sequence[Scored]) -> list[Routed]:
    """Return for each task: a random engine, the best overall engine, the predicted engine."""
    tasks: dict[tuple[str, str], dict[str, list[Scored]]] = defaultdict(dict)
    for one in found:
        task = tasks[one.row["task_id"], one.row["job_type"]]
        task.setdefault(one.row["engine"], []).append(one)
    return [_routed(engines) for engines in tasks.values()]


def _routed(engines: Mapping[str, Sequence[Scored]]) -> Routed:
    came = {name: _mean([int(s.row["success"]) for s in ran]) for name, ran in engines.items()}
    single = max(sorted(engines), key=lambda name: engines[name][0].engine)
    learned = max(sorted(engines), key=lambda name: engines[name][0].found.success)
    return Routed(_mean(list(came.values())), came[single], came[learned])


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def interval(differences: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % bootstrap interval of the mean over tasks."""
    rng = random.Random(1)  # noqa: S311 - reproducible draws
    means = sorted(_mean(rng.choices(differences, k=len(differences))) for _ in range(DRAWS))
    return means[DRAWS // 40], means[-DRAWS // 40]


def costs(found: Sequence[Scored]) -> str:
    """Return the typical factor between predicted and true cost."""
    known = [one for one in found if one.row["cost_usd"]]
    if not known:
        return ""
    errors = [
        math.log(max(COST_FLOOR_NANO_USD, float(one.row["cost_usd"]) * 1e9))
        - math.log(one.found.cost_nano_usd)
        for one in known
    ]
    return f"x {math.exp(math.sqrt(_mean([error**2 for error in errors]))):.2f}"


def line(name: str, found: Sequence[Scored]) -> str:
    """Format one row of the table."""
    passed = [int(one.row["success"]) for one in found]
    cells = []
    for shares in (
        [one.base for one in found],
        [one.engine for one in found],
        [one.found.success for one in found],
    ):
        log, square = losses(zip(shares, passed, strict=True))
        cells.append(f"{log:.3f} / {square:.3f}")
    tasks = routed(found)
    low, high = interval([task.learned - task.single for task in tasks])
    ways = [_mean([task[way] for task in tasks]) for way in range(3)]
    cells += [f"{way:.3f}" for way in ways] + [f"{low:+.3f} to {high:+.3f}", costs(found)]
    return f"| {name} | {len(tasks)} | " + " | ".join(cells) + " |"


HEADS = (
    *("source", "tasks", "base rate", "engine's rate", "model", "mix", "best single", "learned"),
    *("over best single", "cost"),
)


def say(text: str) -> None:
    """Print one line of the result immediately."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def table(rows: Sequence[Row], held_out: Sequence[Row] | None, *, few: bool) -> list[Scored]:
    """Print one line per source; return all predictions."""
    say(f"| {' | '.join(HEADS)} |")
    say("| --- " * len(HEADS) + "|")
    whole: list[Scored] = []
    for source in sorted({row["source"] for row in held_out or rows}):
        train = [row for row in rows if row["source"] == source]
        if held_out is None:
            found = crossed(train, few=few)
        else:
            test = [row for row in held_out if row["source"] == source]
            found = list(scored(thinned(train) if few else train, test))
        say(line(source, found))
        whole += found
    return whole


def written(path: Path, found: Iterable[Scored]) -> None:
    """Write the prediction of each run to a file."""
    names = ("source", "task_id", "job_type", "engine", "attempt")
    with path.open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow((*names, "success", "cost_usd"))
        for one in found:
            row = (round(one.found.success, 6), round(one.found.cost_nano_usd / 1e9, 6))
            out.writerow((*(one.row[name] for name in names), *row))


def main(typed: Sequence[str]) -> None:
    """Score the data folder given on the command line."""
    parser = argparse.ArgumentParser(description="Score the model of learned routing.")
    parser.add_argument("--data", type=Path, required=True, help="a folder of runs_*.csv.gz")
    parser.add_argument("--held-out", type=Path, help="predict these from all of --data")
    parser.add_argument("--predictions", type=Path, help="write each prediction as CSV")
    asked = parser.parse_args(typed)
    rows = rows_of(asked.data)
    held_out = rows_of(asked.held_out) if asked.held_out else None
    say("Log-loss / Brier score of three predictions; success by three ways of choosing.\n")
    say("Every engine has tried every task:\n")
    found = table(rows, held_out, few=False)
    say(f"\nAbout {FEW} engines have tried each task, as in a fleet:\n")
    table(rows, held_out, few=True)
    if asked.predictions:
        written(asked.predictions, found)


if __name__ == "__main__":
    main(sys.argv[1:])
