"""The process of `aq factory run`."""

import asyncio
import signal
from collections.abc import Mapping
from typing import Any

import structlog
from msgspec.structs import replace

from gigafactory.client import fleet
from gigafactory.client.transport.async_client import AsyncClient
from gigafactory.config.settings import Config, FactorySettings
from gigafactory.domain.errors import NotFound, Refused
from gigafactory.engines.catalogue import load_engines
from gigafactory.factory.agent.agent import Agent, ExitCondition
from gigafactory.factory.agent.membership import FleetMembership, load_membership
from gigafactory.factory.core.data_dir import DataDir
from gigafactory.factory.machine.engines import parse_seats
from gigafactory.system import logging
from gigafactory.system.loop_watchdog import watch_loop
from gigafactory.wiring.factory import open_agent

log = structlog.get_logger()


def run_factory(config: Config, options: Mapping[str, Any]) -> None:
    """Run the factory that this machine was enrolled as.

    Raise NotFound if it is not enrolled, Refused if the coordinator refuses it.
    """
    logging.configure(config.log.level, config.log.format)
    data_dir = DataDir.under(config.data)
    membership = load_membership(data_dir)
    if membership is None:
        hint = "create an invitation (`aq factory invite`) and use it here (`aq factory enroll`)"
        raise NotFound("membership", str(data_dir.token_file), hint)
    once = 1 if options.get("once") else options.get("max_jobs")
    ends = ExitCondition(jobs_max=once, idle_s=options.get("idle_exit"))
    asyncio.run(_work(_apply_options(config.factory, options), membership, data_dir, ends))
    if options.get("leave"):
        asyncio.run(_leave(data_dir))


def _apply_options(settings: FactorySettings, options: Mapping[str, Any]) -> FactorySettings:
    """Return the settings with the command-line options applied."""
    given: dict[str, Any] = {
        name: options[name] for name in ("slots", "repos", "source", "inbox") if options.get(name)
    }
    if options.get("seats"):
        given["seats"] = parse_seats(options["seats"], load_engines())
    if options.get("allow_repo"):
        given["allow_repo"] = tuple(options["allow_repo"])
    if options.get("label"):
        given["labels"] = tuple(options["label"])
    return replace(settings, **given)


async def _work(
    settings: FactorySettings, membership: FleetMembership, data_dir: DataDir, ends: ExitCondition
) -> None:
    async with open_agent(settings, membership, data_dir, ends=ends) as agent:
        drain_on_signals(agent)
        with watch_loop():
            await agent.run()
    log.info("done")


async def _leave(data_dir: DataDir) -> None:
    """Deregister this factory after its last report."""
    membership = load_membership(data_dir)
    assert membership is not None, "it ran as a member"
    async with AsyncClient(membership.url, membership.token) as client:
        try:
            await client.send(fleet.deregister(membership.factory_id))
        except Refused as refused:
            log.warning("not deregistered", reason=refused.detail)
            return
    data_dir.token_file.unlink(missing_ok=True)
    log.info("left the fleet", factory=membership.factory_id)


def drain_on_signals(agent: Agent) -> None:
    """Drain the agent on SIGTERM and SIGINT."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, agent.drain)
