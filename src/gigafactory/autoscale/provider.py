"""The provider port: starts, stops and lists machines."""

from datetime import timedelta
from typing import Protocol

import msgspec

from gigafactory.domain.errors import Refused
from gigafactory.domain.scaling.scale_plan import ScaleLimits
from gigafactory.domain.scaling.scale_target import Shape


class CannotProvide(Refused):
    """A machine could not be started, stopped or listed; the next step tries again."""

    code = "cannot_provide"


class Provider(Protocol):
    """Machines of one shape, named after their factories."""

    @property
    def list_is_complete(self) -> bool:
        """Whether an unlisted machine does not exist, even if the fleet still sees it online."""

    async def list_machines(self) -> frozenset[str]:
        """Return the names of all machines, including those starting or stopping.

        Raises CannotProvide.
        """

    async def start(self, name: str) -> None:
        """Start a machine that joins the fleet under this name; return once it is starting.

        Raises Refused.
        """

    async def stop(self, name: str) -> None:
        """Stop an idle machine; idempotent.

        Raises CannotProvide.
        """


class ScalingTarget(msgspec.Struct, frozen=True):
    """A shape with its scaling limits and provider."""

    shape: Shape
    cool_down: timedelta
    start_within: timedelta
    provider: Provider

    @property
    def limits(self) -> ScaleLimits:
        """Return the limits of its scaling plan."""
        return ScaleLimits(
            maximum=self.shape.maximum, cool_down=self.cool_down, start_within=self.start_within
        )
