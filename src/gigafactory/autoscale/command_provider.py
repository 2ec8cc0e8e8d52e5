"""The provider `command`: a script that starts, stops and lists machines."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Mapping, Sequence

from gigafactory.autoscale.provider import CannotProvide
from gigafactory.client import fleet
from gigafactory.client.transport.async_client import AsyncClient
from gigafactory.domain.scaling.scale_target import Shape

ENDS_WITHIN_S = 300.0
"""A slower script should return early and report the machine in `list`."""
SAID_MAX = 500
WITHHELD = ("AQ_FLEET_TOKEN",)
"""The autoscaler's token covers the whole fleet and is not passed on."""


class CommandProvider:
    """Machines managed by a command.

    The command is called with `start`, `stop` or `list`. Its environment is the autoscaler's plus
    AQ_SHAPE; AQ_SHAPE_PREFIX for `list`; AQ_FACTORY_ID for `start` and `stop`; and for `start` also
    AQ_FLEET_API, AQ_ENROLL_SECRET and the factory's settings.
    """

    def __init__(
        self,
        command: Sequence[str],
        shape: Shape,
        client: AsyncClient,
        *,
        invited_s: float,
        environ: Mapping[str, str] = os.environ,
        within_s: float = ENDS_WITHIN_S,
    ) -> None:
        self._invited_s = invited_s
        self._command = tuple(command)
        self._shape = shape
        self._client = client
        self._environ = {key: value for key, value in environ.items() if key not in WITHHELD}
        self._environ["AQ_SHAPE"] = shape.name
        self._within_s = within_s

    @property
    def list_is_complete(self) -> bool:
        """False: a cloud's list may lag behind, so machines with heartbeats exist too."""
        return False

    async def list_machines(self) -> frozenset[str]:
        """Return the names of this shape that `list` prints, one per line."""
        printed = await self._call("list", AQ_SHAPE_PREFIX=self._shape.factories)
        names = (line.strip() for line in printed.splitlines())
        return frozenset(name for name in names if name.startswith(self._shape.factories))

    async def start(self, name: str) -> None:
        """Start a machine that enrolls as a factory with this name."""
        shape = self._shape
        invited = await self._client.send(fleet.invite(shape.products, lasts_s=self._invited_s))
        seats = ",".join(f"{engine}={count}" for engine, count in shape.engines.items())
        await self._call(
            "start",
            AQ_FACTORY_ID=name,
            AQ_FLEET_API=self._client.url,
            AQ_ENROLL_SECRET=invited.secret,
            AQ_FACTORY_SLOTS=str(shape.slots),
            AQ_FACTORY_SEATS=seats,
            AQ_FACTORY_LABELS=f"shape:{shape.name}",
        )

    async def stop(self, name: str) -> None:
        """Stop the machine."""
        await self._call("stop", AQ_FACTORY_ID=name)

    async def _call(self, verb: str, **variables: str) -> str:
        command_line = f"`{' '.join((*self._command, verb))}`"
        environ = self._environ | {key: value for key, value in variables.items() if value}
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command,
                verb,
                env=environ,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise CannotProvide(f"cannot run {command_line}: {error.strerror or error}") from None
        try:
            async with asyncio.timeout(self._within_s):
                out, err = await process.communicate()
        except TimeoutError:
            await _kill(process)
            raise CannotProvide(f"{command_line} took longer than {self._within_s:g} s") from None
        except asyncio.CancelledError:
            await _kill(process)
            raise
        if process.returncode:
            output_lines = (err or out).decode(errors="replace").strip().splitlines()
            why = f": {output_lines[-1][:SAID_MAX]}" if output_lines else ""
            raise CannotProvide(f"{command_line} ended with {process.returncode}{why}")
        return out.decode(errors="replace")


async def _kill(process: asyncio.subprocess.Process) -> None:
    """Kill a script and its child processes."""
    with contextlib.suppress(ProcessLookupError):
        if sys.platform == "win32":
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGKILL)
    await process.wait()
