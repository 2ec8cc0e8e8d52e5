"""Scaling demand: waiting jobs by class, and the number of factories they need."""

from collections.abc import Sequence
from datetime import datetime

import msgspec
from msgspec.structs import replace

from gigafactory.coordinator.core.ports import Clock
from gigafactory.coordinator.index.index import Index
from gigafactory.domain.fleet.factory_access import is_visible
from gigafactory.domain.scaling.demand import DemandSnapshot, measure_demand
from gigafactory.domain.scaling.scale_target import ScaleTarget, Shape, scale_targets
from gigafactory.domain.tenancy.access import Caller


class ScalingSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The scaling demand at one moment."""

    at: datetime
    survey: DemandSnapshot
    outlooks: Sequence[ScaleTarget]


class Scaling:
    """Computes scaling demand from the index alone, without reading the store."""

    def __init__(self, index: Index, clock: Clock) -> None:
        self._index = index
        self._clock = clock

    def snapshot(self, caller: Caller, shapes: Sequence[Shape]) -> ScalingSnapshot:
        """Return the demand of the products that the caller has chosen or may see.

        Free seats are divided among the waiting jobs of all products, also those left out.
        """
        now = self._clock.now()
        whole = measure_demand(self._index.queue, self._index.fleet, now)
        seen = tuple(
            demand
            for demand in whole.demands
            if caller.can_see(demand.job_class.product_id)
            and caller.product in {None, demand.job_class.product_id}
        )
        visible = replace(whole, demands=seen)
        targets = [
            self._visible_target(caller, one)
            for one in scale_targets(shapes, visible, self._index.fleet)
        ]
        return ScalingSnapshot(at=now, survey=visible, outlooks=targets)

    def _visible_target(self, caller: Caller, target: ScaleTarget) -> ScaleTarget:
        factories = self._index.factories
        visible = (one for one in target.factories if is_visible(caller, factories[one.id]))
        return replace(target, factories=tuple(visible))
