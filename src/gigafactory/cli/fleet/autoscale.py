"""`aq autoscale`: factories that come and go with the work."""

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
@click.option("--once", is_flag=True, help="Look once, do what is due, and end.")
@click.option("--dry-run", is_flag=True, help="Only say what would be done, and why.")
@click.option("--show", is_flag=True, help="Only show what waits, by what it asks for.")
@for_fleet
def autoscale(session: Session, *, once: bool, dry_run: bool, show: bool) -> int:
    """Start factories when jobs wait, and end them when there is nothing to do: down to none.

    The shapes are those of `autoscale.shapes` in the settings. A factory that is not wanted any
    more is drained first, and ends when its work is done; one that works is never ended. It may be
    stopped, or killed, at any time: its factories go on, and are found again. With --json, every
    decision is one line.
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

    def tell(told: ScalingNotice) -> None:
        line = msgspec.json.encode(told).decode() if session.as_json else plain(told.says)
        (note if told.problem is not None else say)(line)

    async def scaled() -> int:
        access = session.access
        async with AsyncClient(access.url, access.token, product=session.client.product) as client:
            return await run(
                session.config,
                client,
                tell,
                file=_settings_file(session),
                once=once,
                dry_run=dry_run,
            )

    return asyncio.run(scaled())


def _settings_file(session: Session) -> Path | None:
    """The file that the settings came from: its factories are to have the same."""
    origin = session.loaded.origin("autoscale.shapes")
    return Path(origin) if Path(origin).is_file() else None


def _show(told: ScalingView) -> None:
    if not told.classes:
        note("nothing waits, and nothing runs")
        return
    heads = ("WAITING", "UNSERVED", "FREE", "RUNNING", "OLDEST", "TARGET", "PRODUCT", "ASKS FOR")
    table(heads, [_row(one) for one in told.classes])


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
