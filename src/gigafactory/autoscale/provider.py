"""What the autoscaler needs of the world: somebody who starts machines, ends and lists them."""

from datetime import timedelta
from typing import Protocol

import msgspec

from gigafactory.domain.errors import Refused
from gigafactory.domain.scaling.scale_plan import ScaleLimits
from gigafactory.domain.scaling.scale_target import Shape


class CannotProvide(Refused):
    """A machine could not be started, ended or listed; the next look tries again."""

    code = "cannot_provide"


class Provider(Protocol):
    """Machines of one shape, by the names of their factories."""

    @property
    def list_is_complete(self) -> bool:
        """Whether a machine that is not listed cannot be there, whatever the fleet still hears."""

    async def list_machines(self) -> frozenset[str]:
        """Name the machines that there are, those that start or end just now too.

        Raises CannotProvide.
        """

    async def start(self, name: str) -> None:
        """Start a machine that joins the fleet under this name; comes back when it is on its way.

        Raises Refused.
        """

    async def stop(self, name: str) -> None:
        """End a machine that has no work; harmless when it is gone, or asked again.

        Raises CannotProvide.
        """


class ScalingTarget(msgspec.Struct, frozen=True):
    """One shape that is scaled: what it is, how it may be, and who provides it."""

    shape: Shape
    cool_down: timedelta
    start_within: timedelta
    provider: Provider

    @property
    def limits(self) -> ScaleLimits:
        """What its plan must keep to."""
        return ScaleLimits(
            maximum=self.shape.maximum, cool_down=self.cool_down, start_within=self.start_within
        )
