"""The factory of `aq up`: this machine works for its own coordinator, without any ceremony."""

from pathlib import Path

import structlog
from msgspec.structs import replace

from gigafactory.client import fleet
from gigafactory.client.transport.async_client import AsyncClient
from gigafactory.config.data_dir import read_line
from gigafactory.config.settings import Config
from gigafactory.domain.errors import Refused, Unauthenticated
from gigafactory.factory.agent.membership import (
    FleetMembership,
    default_factory_name,
    load_membership,
    save_membership,
)
from gigafactory.factory.core.data_dir import DataDir
from gigafactory.wiring.factory import open_agent

log = structlog.get_logger()


async def work_here(config: Config, url: str, token_file: Path) -> None:
    """Join the coordinator at this address as this machine, and work until cancelled."""
    data_dir = DataDir.under(config.data)
    try:
        membership = await _member(config, data_dir, url, token_file)
        # What is dropped on this machine goes to its coordinator, and not past it.
        mine = replace(config.factory, inbox=None)
        async with open_agent(mine, membership, data_dir) as agent:
            log.info("this machine works", factory=membership.factory_id)
            await agent.run()
    except Refused as refused:
        log.warning("this machine cannot work for its own coordinator", reason=refused.detail)


async def _member(config: Config, data_dir: DataDir, url: str, token_file: Path) -> FleetMembership:
    known = load_membership(data_dir)
    if known is not None and await _good(replace(known, url=url)):
        here = replace(known, url=url)
        if here != known:
            # Commands that speak for this factory look for its coordinator there.
            save_membership(data_dir, here)
        return here
    name = config.factory.id or default_factory_name()
    async with AsyncClient(url, read_line(token_file)) as admin:
        listed = await admin.send(fleet.factories())
        if any(one.id == name for one in listed.factories):
            member = await admin.send(fleet.rotate(name))
        else:
            invited = await admin.send(fleet.invite(["*"]))
            member = await admin.send(fleet.enroll(invited.secret, name))
    made = FleetMembership(url, member.factory_id, member.token)
    save_membership(data_dir, made)
    return made


async def _good(known: FleetMembership) -> bool:
    async with AsyncClient(known.url, known.token) as client:
        try:
            await client.send(fleet.factory(known.factory_id))
        except Unauthenticated:
            return False
        except Refused:
            return False
    return True
