"""The home page: what needs me, with the buttons right there; below it the work and the fleet."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from litestar import get
from litestar.types import ASGIApp

from gigafactory.api.http.request import ApiRequest
from gigafactory.coordinator.core.ports import JobQuery
from gigafactory.coordinator.insights.attention import AttentionItem
from gigafactory.domain.job.change import FLEET
from gigafactory.domain.job.job import Job, Stage
from gigafactory.domain.tenancy.access import ROLES_BY_VERB, Caller
from gigafactory.web.presenters.factory_cards import Card, cards
from gigafactory.web.presenters.grouped_matters import Cause, causes
from gigafactory.web.site.live import Key, Part, shown, stream
from gigafactory.web.site.rendering import page, rendered
from gigafactory.web.site.session import Visit, visit

EACH_MAX = 30
FAULTS = frozenset({"failed", "factory_offline", "engine_unavailable"})


class Place(NamedTuple):
    """Where something is put in order that no button at home can."""

    address: str
    words: str
    each: bool = False
    """Whether each has a place of its own there."""


PLACES = {
    "budget": Place("/budget", "Set the ceiling"),
    "routing_tripped": Place("/insights#routing", "See the evidence"),
    "factory_offline": Place("/fleet#", "See the machine", each=True),
    "engine_unavailable": Place("/fleet#", "See the machine", each=True),
}


class Column(NamedTuple):
    """Matters of one kind of attention."""

    name: str
    title: str
    matters: Sequence[AttentionItem]

    @property
    def causes(self) -> Sequence[Cause]:
        """Those of one cause are one card."""
        return causes(self.matters)


class Home(NamedTuple):
    """What the page shows."""

    columns: Sequence[Column]
    waiting: Sequence[Job]
    working: Sequence[Job]
    counts: Mapping[Stage, int]
    factories: Sequence[Card]

    @property
    def mine(self) -> int:
        """How many matters wait for a person."""
        return sum(len(column.matters) for column in self.columns)


async def _home(request: ApiRequest, caller: Caller) -> Home:
    coordinator = request.coordinator
    matters = [m for m in await coordinator.attention.list(caller) if _concerns(m, caller)]
    jobs = coordinator.jobs
    waiting = JobQuery(stages=(Stage.QUEUED, Stage.BLOCKED), limit=EACH_MAX, oldest_first=True)
    working = JobQuery(stages=(Stage.ASSIGNED, Stage.BUILDING), limit=EACH_MAX)
    of = {"review": "review", "phase": "review", "ship": "ship", "failed": "failed"}
    columns = [
        Column(name, title, [m for m in matters if of.get(m.kind, "respond") == name])
        for name, title in (
            ("respond", "Respond"),
            ("review", "Review"),
            ("ship", "Ship"),
            ("failed", "Failed"),
        )
    ]
    return Home(
        columns,
        await jobs.find(caller, waiting),
        await jobs.find(caller, working),
        await jobs.count_by_stage(caller),
        await cards(coordinator, caller),
    )


def _concerns(matter: AttentionItem, caller: Caller) -> bool:
    """Whether it is of the chosen product; machines, and a halt of all, are everybody's."""
    halted = matter.kind == "halted" and matter.subject != FLEET
    product = matter.subject if halted else matter.product_id
    return caller.product is None or product in (None, caller.product)


def _key(visitor: Visit) -> Key:
    return ("home", visitor.csrf)


async def _part(request: ApiRequest, visitor: Visit) -> Part:
    home = await _home(request, visitor.caller)
    html = rendered(
        "_home.html",
        home=home,
        csrf=visitor.csrf,
        faults=FAULTS,
        places=PLACES,
        may={verb for verb, roles in ROLES_BY_VERB.items() if visitor.caller.role in roles},
        now=request.coordinator.clock.now(),
        Stage=Stage,
    )
    title = f"({home.mine}) Gigafactory" if home.mine else "Gigafactory"
    return Part(html, title, f"/icon.svg?count={home.mine}")


@get("/")
async def home_page(request: ApiRequest) -> ASGIApp:
    """Show what needs the visitor."""
    visitor = await visit(request)
    part = await shown(request, visitor.caller, _key(visitor), lambda: _part(request, visitor))
    return page(request, visitor, "home.html", part=part)


@get("/live/home")
async def live_home(request: ApiRequest) -> ASGIApp:
    """Keep it up to date."""
    visitor = await visit(request)
    return stream(request, visitor.caller, _key(visitor), lambda: _part(request, visitor))


ROUTES = (home_page, live_home)
