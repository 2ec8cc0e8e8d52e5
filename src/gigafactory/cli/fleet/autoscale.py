"""`aq autoscale`: start and stop factories with the demand."""

import asyncio
from pathlib import Path

import click
import msgspec

from gigafactory.cli.exit_codes import Exit
from gigafactory.cli.output.text import note, plain, say, table
from gigafactory.cli.session import Session, for_fleet
from gigafactory.client.scaling import scaling
from gigafactory.wire.scaling import DemandView, ScalingView


@click.command()
@click.option("--once", is_flag=True, help="Check once, act, and exit.")
@click.option("--dry-run", is_flag=True, help="Only print what would be done, and why.")
@click.option("--show", is_flag=True, help="Only show the demand by requirements.")
@for_fleet
def autoscale(session: Session, *, once: bool, dry_run: bool, show: bool) -> int:
    """Start factories when jobs wait and stop idle ones, down to zero.

    `autoscale.shapes` in the settings describes the machines. A factory that is no longer needed is
    drained and exits when its work is done; a busy one is never stopped. The autoscaler can be
    killed at any time: its factories continue, and it finds them again. With --json, every decision
    is one line.
    """
    session.unscoped()
    if show:
        session.answer(scaling(), _show)
        return Exit.OK
    return Exit.REFUSED if _scale(session, once=once, dry_run=dry_run) and once else Exit.OK


def _scale(session: Session, *, once: bool, dry_run: bool) -> int:
    from gigafactory.autoscale.scaler import ScalingNotice
    from gigafactory.client.transport.async_client import AsyncClient
    from gigafactory.wiring.autoscale import autoscale as run

    def print_notice(notice: ScalingNotice) -> None:
        line = msgspec.json.encode(notice).decode() if session.as_json else plain(notice.says)
        (note if notice.problem is not None else say)(line)

    async def scale() -> int:
        access = session.access
        async with AsyncClient(access.url, access.token, product=session.client.product) as client:
            return await run(
                session.config,
                client,
                print_notice,
                file=_settings_file(session),
                once=once,
                dry_run=dry_run,
            )

    return asyncio.run(scale())


def _settings_file(session: Session) -> Path | None:
    """Return the settings file, which its factories use too."""
    origin = session.loaded.origin("autoscale.shapes")
    return Path(origin) if Path(origin).is_file() else None


def _show(view: ScalingView) -> None:
    if not view.classes:
        note("no demand: nothing waits or runs")
        return
    heads = (
        "WAITING",
        "UNSERVED",
        "FREE",
        "RUNNING",
        "OLDEST",
        "TARGET",
        "PRODUCT",
        "REQUIREMENTS",
    )
    table(heads, [_row(one) for one in view.classes])


def _row(one: DemandView) -> tuple[object, ...]:
    oldest = "" if one.oldest_wait_sec is None else f"{one.oldest_wait_sec:.0f}s"
    target = "" if one.target_wait_sec is None else f"{one.target_wait_sec:.0f}s"
    late = " (late)" if one.late else ""
    asks = (one.priority, one.engine or one.engine_class, *one.capabilities)
    wants = ", ".join(asks) if one.step == "run" else "to ship"
    stopped = f"; {one.stopped}" if one.stopped else ""
    return (
        one.waiting,
        one.unserved,
        one.free,
        one.running,
        oldest + late,
        target,
        one.product_id,
        wants + stopped,
    )
