"""The provider `command`, with a script that records its calls and simulates machines."""

import os
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from gigafactory.autoscale.command_provider import CommandProvider
from gigafactory.autoscale.provider import CannotProvide
from gigafactory.client import fleet
from gigafactory.client.transport.async_client import AsyncClient
from gigafactory.domain.scaling.scale_target import Shape
from tests.support.api_server import Server, a_server

pytestmark = pytest.mark.asyncio(loop_scope="module")

RECORDS = """\
#!/bin/sh
here=$(dirname "$0")
env | grep '^AQ_' | sort > "$here/$1.env"
case "$1" in
  start) echo "$AQ_FACTORY_ID" >> "$here/machines" ;;
  stop) : > "$here/machines" ;;
  list) cat "$here/machines"; echo other.1 ;;
esac
"""
SHAPE = Shape(
    name="vm", factories="me.vm.", engines={"claude": 2, "codex": 1}, slots=3, products=("notes",)
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Server]:
    async with a_server(tmp_path_factory.mktemp("server")) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def client(server: Server) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(server.url, server.admin_token) as admin:
        yield admin


def a_script(folder: Path, text: str = RECORDS) -> str:
    file = folder / "cloud"
    file.write_text(text)
    file.chmod(0o755)
    (folder / "machines").touch()
    return str(file)


def read_environment(folder: Path, verb: str) -> dict[str, str]:
    lines = (folder / f"{verb}.env").read_text().splitlines()
    return {name: value for name, _, value in (line.partition("=") for line in lines)}


def provider(command: str, client: AsyncClient, **more: float) -> CommandProvider:
    environ = os.environ | {"AQ_FLEET_TOKEN": "opens-everything"}
    return CommandProvider([command], SHAPE, client, invited_s=60.0, environ=environ, **more)


async def test_machines_are_started_listed_and_stopped(tmp_path: Path, client: AsyncClient) -> None:
    commands = provider(a_script(tmp_path), client)
    assert await commands.list_machines() == frozenset()
    await commands.start("me.vm.1")
    assert await commands.list_machines() == {"me.vm.1"}
    await commands.stop("me.vm.1")
    assert await commands.list_machines() == frozenset()
    assert not commands.list_is_complete
    assert read_environment(tmp_path, "list") == {"AQ_SHAPE": "vm", "AQ_SHAPE_PREFIX": "me.vm."}
    assert read_environment(tmp_path, "stop") == {"AQ_SHAPE": "vm", "AQ_FACTORY_ID": "me.vm.1"}


async def test_start_passes_the_machine_its_enrollment_and_nothing_else(
    tmp_path: Path, client: AsyncClient
) -> None:
    commands = provider(a_script(tmp_path), client)
    await commands.start("me.vm.2")
    environ = read_environment(tmp_path, "start")
    secret = environ.pop("AQ_ENROLL_SECRET")
    assert environ == {
        "AQ_SHAPE": "vm",
        "AQ_FACTORY_ID": "me.vm.2",
        "AQ_FLEET_API": client.url,
        "AQ_FACTORY_SLOTS": "3",
        "AQ_FACTORY_SEATS": "claude=2,codex=1",
        "AQ_FACTORY_LABELS": "shape:vm",
    }
    assert (await client.send(fleet.enroll(secret, "me.vm.2"))).factory_id == "me.vm.2"
    joined = await client.send(fleet.factory("me.vm.2"))
    assert joined.products == ("notes",)


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (
            "#!/bin/sh\necho first >&2; echo no quota left >&2; exit 3\n",
            "ended with 3: no quota left",
        ),
        ("#!/bin/sh\nexit 1\n", "ended with 1"),
        ("#!/bin/sh\nsleep 60 & sleep 60\n", "took longer than 0.2 s"),
    ],
)
async def test_failed_command_is_reported_with_its_last_output(
    tmp_path: Path, client: AsyncClient, script: str, said: str
) -> None:
    commands = provider(a_script(tmp_path, script), client, within_s=0.2)
    with pytest.raises(CannotProvide) as caught:
        await commands.list_machines()
    assert caught.value.detail == f"`{tmp_path}/cloud list` {said}"


async def test_missing_command_is_reported(tmp_path: Path, client: AsyncClient) -> None:
    with pytest.raises(CannotProvide, match=r"cannot run `.*nowhere stop`: No such file"):
        await provider(str(tmp_path / "nowhere"), client).stop("me.vm.1")


PAGE = Path(__file__).parents[3] / "docs" / "howto" / "autoscaling.md"
DOCKER = """\
#!/bin/sh
here=$(dirname "$0")
case "$1" in
  run) echo "$*" > "$here/run"; echo "$AQ_FACTORY_ID" > "$here/names" ;;
  stop) rm "$here/names" ;;
  ps) [ ! -e "$here/names" ] || cat "$here/names" ;;
esac
"""


def documented_script() -> str:
    """Return the first script of the documentation page."""
    found = re.search(r"```sh\n(#!.*?)```", PAGE.read_text(), re.DOTALL)
    assert found is not None
    return found[1]


async def test_documented_container_script_starts_lists_and_stops(
    tmp_path: Path, client: AsyncClient
) -> None:
    docker = tmp_path / "docker"
    docker.write_text(DOCKER)
    docker.chmod(0o755)
    environ = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    script = a_script(tmp_path, documented_script())
    commands = CommandProvider([script], SHAPE, client, invited_s=60.0, environ=environ)
    await commands.start("me.vm.3")
    run = (tmp_path / "run").read_text()
    assert run.startswith("run --detach --rm --name me.vm.3 --env AQ_FLEET_API ")
    assert "exec aq factory run --leave" in run
    assert await commands.list_machines() == {"me.vm.3"}
    await commands.stop("me.vm.3")
    await commands.stop("me.vm.3")
    assert await commands.list_machines() == frozenset()
