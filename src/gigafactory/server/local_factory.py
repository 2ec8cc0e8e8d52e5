"""The factory of `aq up`: enrols this machine with its own coordinator automatically."""

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


async def run_local_factory(config: Config, url: str, token_file: Path) -> None:
    """Enrol this machine with the coordinator at `url` and run jobs until cancelled."""
    data_dir = DataDir.under(config.data)
    try:
        membership = await _ensure_membership(config, data_dir, url, token_file)
        # The inbox of `aq up` submits to the coordinator; the factory must not read it too.
        settings = replace(config.factory, inbox=None)
        async with open_agent(settings, membership, data_dir) as agent:
            log.info("local factory started", factory=membership.factory_id)
            await agent.run()
    except Refused as refused:
        log.warning("cannot start the local factory", reason=refused.detail)


async def _ensure_membership(
    config: Config, data_dir: DataDir, url: str, token_file: Path
) -> FleetMembership:
    membership = load_membership(data_dir)
    if membership is not None and await _is_accepted(replace(membership, url=url)):
        local_membership = replace(membership, url=url)
        if local_membership != membership:
            # Commands of this factory read the coordinator's URL from there.
            save_membership(data_dir, local_membership)
        return local_membership
    name = config.factory.id or default_factory_name()
    async with AsyncClient(url, read_line(token_file)) as admin:
        listed = await admin.send(fleet.factories())
        if any(one.id == name for one in listed.factories):
            member = await admin.send(fleet.rotate(name))
        else:
            invited = await admin.send(fleet.invite(["*"]))
            member = await admin.send(fleet.enroll(invited.secret, name))
    created = FleetMembership(url, member.factory_id, member.token)
    save_membership(data_dir, created)
    return created


async def _is_accepted(membership: FleetMembership) -> bool:
    async with AsyncClient(membership.url, membership.token) as client:
        try:
            await client.send(fleet.factory(membership.factory_id))
        except Unauthenticated:
            return False
        except Refused:
            return False
    return True
