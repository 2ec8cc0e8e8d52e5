"""`aq dag`: a composite as a tree."""

import click

from gigafactory.cli.output.text import colour_stage, note, pairs, plain, say
from gigafactory.cli.session import Session, for_fleet
from gigafactory.client.jobs import dag as call
from gigafactory.wire.composites import DagView, NodeView, RollupView


@click.command()
@click.argument("job")
@for_fleet
def dag(session: Session, *, job: str) -> None:
    """Show a composite as a tree: its children by phase and stage."""
    session.answer(call(job), _show)


def _show(dag_view: DagView) -> None:
    show_rollup(dag_view)
    say()
    below: dict[str | None, list[NodeView]] = {}
    for node in dag_view.nodes:
        below.setdefault(node.parent_id, []).append(node)
    names = {node.id: node.name for node in dag_view.nodes}
    root = dag_view.nodes[0]
    say(_line(root, names))
    levels = [iter(_in_phases(below.get(root.id, [])))]
    while levels:
        following = next(levels[-1], None)
        if following is None:
            levels.pop()
            continue
        say("  " * len(levels) + _line(following, names))
        levels.append(iter(_in_phases(below.get(following.id, []))))
    if dag_view.cut:
        note("truncated: the composite has more jobs")


def show_rollup(dag_view: DagView) -> None:
    """Print the totals of a composite."""
    sums = dag_view.rollup
    pairs(
        (
            ("status", sums.status),
            ("progress", f"{sums.shipped} of {sums.total} shipped"),
            ("stages", [f"{count} {stage}" for stage, count in sums.stages.items()]),
            ("phase", sums.phase),
            ("to approve", f"phase {sums.asked_phase}" if sums.asked_phase is not None else None),
            ("failed", _names(dag_view, sums.failed)),
            ("stuck", _names(dag_view, sums.blocked)),
            ("spent", f"${sums.cost_usd}{_of(sums)}"),
            ("revision", sums.revision),
        )
    )


def _of(sums: RollupView) -> str:
    usd = f" of ${sums.ceiling_usd}" if sums.ceiling_usd is not None else ""
    tokens = f" of {sums.ceiling_tokens}" if sums.ceiling_tokens is not None else ""
    return f"{usd}, {sums.tokens}{tokens} tokens"


def _names(dag_view: DagView, ids: tuple[str, ...]) -> list[str]:
    return [node.name for node in dag_view.nodes if node.id in set(ids)]


def _in_phases(nodes: list[NodeView]) -> list[NodeView]:
    return sorted(nodes, key=lambda node: (node.phase is None, node.phase or 0, node.id))


def _line(node: NodeView, names: dict[str, str]) -> str:
    phase = f"phase {node.phase}, " if node.phase is not None else ""
    needs = ", ".join(names.get(dep, dep) for dep in node.deps)
    after = f" (after {plain(needs)})" if needs else ""
    replaced_note = ", replaced" if node.superseded_by else ""
    plans = ", plans the rest" if node.planner else ""
    why = f": {plain(node.reason)}" if node.reason else ""
    return (
        f"{plain(node.name)}  {phase}{colour_stage(node.stage)}{plans}{replaced_note}{after}{why}"
    )
