"""`aq factory run` as a process: settings and options in, an agent that ends on its signals."""

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
from gigafactory.wiring.factory import open_agent

log = structlog.get_logger()


def run_factory(config: Config, options: Mapping[str, Any]) -> None:
    """Work as the factory that this machine was enrolled as.

    Raises NotFound when it was not, and Refused when the coordinator does not take it.
    """
    logging.configure(config.log.level, config.log.format)
    data_dir = DataDir.under(config.data)
    membership = load_membership(data_dir)
    if membership is None:
        hint = "ask for an invitation (`aq factory invite`), and use it here (`aq factory enroll`)"
        raise NotFound("membership", str(data_dir.token_file), hint)
    once = 1 if options.get("once") else options.get("max_jobs")
    ends = ExitCondition(jobs_max=once, idle_s=options.get("idle_exit"))
    asyncio.run(_work(_with(config.factory, options), membership, data_dir, ends))
    if options.get("leave"):
        asyncio.run(_leave(data_dir))


def _with(settings: FactorySettings, options: Mapping[str, Any]) -> FactorySettings:
    """The settings with what was said on the command line."""
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
        heed_signals(agent)
        await agent.run()
    log.info("done")


async def _leave(data_dir: DataDir) -> None:
    """Leave the fleet: all that this factory had to say was heard."""
    membership = load_membership(data_dir)
    assert membership is not None, "it has worked as a member"
    async with AsyncClient(membership.url, membership.token) as client:
        try:
            await client.send(fleet.deregister(membership.factory_id))
        except Refused as refused:
            log.warning("not deregistered", reason=refused.detail)
            return
    data_dir.token_file.unlink(missing_ok=True)
    log.info("left the fleet", factory=membership.factory_id)


def heed_signals(agent: Agent) -> None:
    """Let signals end the work in an orderly way."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, agent.drain)
