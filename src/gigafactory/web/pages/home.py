"""Home page: attention items with their actions, then jobs and the fleet."""

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
from gigafactory.web.presenters.factory_cards import FactoryCard, list_factory_cards
from gigafactory.web.presenters.grouped_attention import AttentionGroup, group_attention
from gigafactory.web.site.live import Part, PartKey, current_part, stream_part
from gigafactory.web.site.rendering import render, render_page
from gigafactory.web.site.session import WebSession, require_session

EACH_MAX = 30
FAULTS = frozenset({"failed", "factory_offline", "factory_twin", "engine_unavailable"})


class AttentionLink(NamedTuple):
    """Link to the page that resolves an attention item."""

    url: str
    label: str
    anchored: bool = False
    """Whether the subject is the fragment of the URL."""


LINKS = {
    "budget": AttentionLink("/budget", "Set the limit"),
    "routing_tripped": AttentionLink("/insights#routing", "Show the evidence"),
    "factory_offline": AttentionLink("/fleet#", "Show the machine", anchored=True),
    "factory_twin": AttentionLink("/fleet#", "Show the machine", anchored=True),
    "engine_unavailable": AttentionLink("/fleet#", "Show the machine", anchored=True),
}


class AttentionColumn(NamedTuple):
    """Attention items of one column."""

    name: str
    title: str
    items: Sequence[AttentionItem]

    @property
    def groups(self) -> Sequence[AttentionGroup]:
        """Items grouped by cause, one card each."""
        return group_attention(self.items)


class HomeView(NamedTuple):
    """Data of the page."""

    columns: Sequence[AttentionColumn]
    waiting: Sequence[Job]
    working: Sequence[Job]
    counts: Mapping[Stage, int]
    factories: Sequence[FactoryCard]

    @property
    def attention_count(self) -> int:
        """Number of attention items."""
        return sum(len(column.items) for column in self.columns)


async def _home(request: ApiRequest, caller: Caller) -> HomeView:
    coordinator = request.coordinator
    items = [i for i in await coordinator.attention.list(caller) if _is_in_product(i, caller)]
    jobs = coordinator.jobs
    waiting = JobQuery(stages=(Stage.QUEUED, Stage.BLOCKED), limit=EACH_MAX, oldest_first=True)
    working = JobQuery(stages=(Stage.ASSIGNED, Stage.BUILDING), limit=EACH_MAX)
    column_of = {"review": "review", "phase": "review", "ship": "ship", "failed": "failed"}
    columns = [
        AttentionColumn(name, title, [i for i in items if column_of.get(i.kind, "respond") == name])
        for name, title in (
            ("respond", "Respond"),
            ("review", "Review"),
            ("ship", "Ship"),
            ("failed", "Failed"),
        )
    ]
    return HomeView(
        columns,
        await jobs.find(caller, waiting),
        await jobs.find(caller, working),
        await jobs.count_by_stage(caller),
        await list_factory_cards(coordinator, caller),
    )


def _is_in_product(item: AttentionItem, caller: Caller) -> bool:
    """Return whether an item is shown for the chosen product; fleet-wide items always are."""
    halted = item.kind == "halted" and item.subject != FLEET
    product = item.subject if halted else item.product_id
    return caller.product is None or product in (None, caller.product)


def _key(session: WebSession) -> PartKey:
    return ("home", session.csrf)


async def _part(request: ApiRequest, session: WebSession) -> Part:
    home = await _home(request, session.caller)
    html = render(
        "_home.html",
        home=home,
        csrf=session.csrf,
        faults=FAULTS,
        links=LINKS,
        may={verb for verb, roles in ROLES_BY_VERB.items() if session.caller.role in roles},
        now=request.coordinator.clock.now(),
        Stage=Stage,
    )
    title = f"({home.attention_count}) Gigafactory" if home.attention_count else "Gigafactory"
    return Part(html, title, f"/icon.svg?count={home.attention_count}")


@get("/")
async def home_page(request: ApiRequest) -> ASGIApp:
    """Show the home page."""
    session = await require_session(request)
    part = await current_part(
        request, session.caller, _key(session), lambda: _part(request, session)
    )
    return render_page(request, session, "home.html", part=part)


@get("/live/home")
async def live_home(request: ApiRequest) -> ASGIApp:
    """Stream updates of the page."""
    session = await require_session(request)
    return stream_part(request, session.caller, _key(session), lambda: _part(request, session))


ROUTES = (home_page, live_home)
