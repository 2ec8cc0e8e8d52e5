"""Import tickets: items assigned to the agent in a tracker become jobs, each once."""

from collections.abc import Mapping, Sequence

import msgspec
import structlog
from msgspec.structs import replace

from gigafactory.coordinator.core.leadership import Leadership
from gigafactory.coordinator.core.ports import Store, TrackerBinding
from gigafactory.coordinator.jobs.defects import Defects
from gigafactory.coordinator.jobs.submissions import SubmissionResult, Submissions
from gigafactory.domain.errors import (
    Fault,
    Forbidden,
    IdempotencyConflict,
    Invalid,
    NotFound,
    Refused,
    TrackerRefused,
    TrackerUnavailable,
    Unavailable,
)
from gigafactory.domain.job.change import FLEET
from gigafactory.domain.job.job import Job
from gigafactory.domain.manifest.manifest import JobFile, content_hash
from gigafactory.domain.manifest.names import slug
from gigafactory.domain.submission.submission import idempotency_hold
from gigafactory.domain.tenancy.access import OWN_PRODUCTS, Caller, Role
from gigafactory.domain.tenancy.product import DEFAULT_PRODUCT
from gigafactory.domain.tracker.ticket import (
    TRIAGE_LABEL,
    Ticket,
    digest_of,
    job_file_of,
    ticket_key,
    with_key,
)

ACTOR = "system:tracker"
HINT = "configure one in the settings, under [tracker.products]"

log = structlog.get_logger()


class RejectedItem(msgspec.Struct, frozen=True, rename="camel"):
    """A tracker item that was refused as a job, and why."""

    item_id: str
    code: str
    detail: str


class ImportResult(msgspec.Struct, frozen=True):
    """The outcome of importing items."""

    jobs: tuple[Job, ...] = ()
    created: bool = False
    refused: tuple[RejectedItem, ...] = ()


class TicketImporter:
    """Imports tracker items on request, and as a duty."""

    def __init__(
        self,
        store: Store,
        submissions: Submissions,
        leadership: Leadership,
        defects: Defects,
        places: Mapping[str, TrackerBinding],
    ) -> None:
        self._store = store
        self._submissions = submissions
        self._leadership = leadership
        self._defects = defects
        self._places = places
        self._imported: dict[tuple[str, str], str] = {}
        """Digest of each item when it was last imported; unchanged items are skipped."""
        self._reported: dict[tuple[str, str], str] = {}
        """Digest of each item when its refusal was last reported to the tracker."""

    def find_tracker(self, product: str) -> TrackerBinding | None:
        """Return the tracker of a product; None if it has none."""
        return self._places.get(product) or self._places.get(FLEET)

    def require_tracker(self, product: str) -> TrackerBinding:
        """Return the tracker of a product.

        Raises NotFound.
        """
        place = self.find_tracker(product)
        if place is None:
            raise NotFound("tracker of product", product, HINT)
        return place

    async def ingest(self, caller: Caller, item_id: str) -> SubmissionResult:
        """Create a job from an item, even if it is not assigned to the agent; idempotent per item.

        Raises NotFound, TrackerUnavailable, TrackerRefused, and what `submit` raises.
        """
        place = self.require_tracker(_chosen_product(caller))
        item = await place.tracker.item(item_id)
        if item is None or not self._may_read(caller, place, item):
            raise NotFound("item", item_id, "check its number in the tracker")
        return await self.ingest_item(caller, item)

    def _may_read(self, caller: Caller, place: TrackerBinding, item: Ticket) -> bool:
        """Whether an item of a shared tracker is of a product that the caller may see."""
        usual = DEFAULT_PRODUCT if place.name == FLEET else place.name
        return caller.can_see(item.product or usual)

    async def ingest_item(self, caller: Caller, item: Ticket) -> SubmissionResult:
        """Create a job from an item that the caller provides.

        Raises what `submit` raises.
        """
        product = _chosen_product(caller)
        place = self.find_tracker(product)
        if item.product not in (None, product):
            fault = Fault("product", f"it belongs to {item.product!r}, but {product!r} was chosen")
            raise Invalid(f"the ticket {item.id}", [fault])
        file = job_file_of(item, repo=place.default_repo if place else None)
        key = await self._key(product, item, file)
        # The item and its content form the idempotency key.
        asking = replace(caller, product=product, request_key=None)
        return await self._submissions.submit(asking, [with_key(file, key)])

    async def ingest_waiting(self, caller: Caller) -> ImportResult:
        """Create jobs from all waiting items in the tracker of the caller's product.

        Raises Forbidden, NotFound, TrackerUnavailable, TrackerRefused.
        """
        product = _chosen_product(caller)
        place = self.require_tracker(product)
        taken = ImportResult()
        for item in await place.tracker.items_for_agents():
            if self.product_of(place, item) != product:
                continue
            try:
                made = await self.import_item(place, item, replace(caller, product=product))
            except Unavailable:
                raise
            except Refused as no:
                unfit = RejectedItem(item.id, no.code, no.detail)
                taken = replace(taken, refused=(*taken.refused, unfit))
            else:
                created = taken.created or made.created
                taken = replace(taken, jobs=(*taken.jobs, *made.jobs), created=created)
        return taken

    async def import_item(
        self, place: TrackerBinding, item: Ticket, caller: Caller | None = None
    ) -> SubmissionResult:
        """Create a job from an assigned item; a refusal is also reported to the tracker.

        An item of another tracker is ignored. Raises what `submit` raises, after the refusal was
        reported.
        """
        product = self.product_of(place, item)
        if product is None:
            return SubmissionResult((), created=False)
        await self._defects.record_from_ticket(product, item)
        by = caller or Caller(actor=ACTOR, role=Role.OPERATOR, products=("*",), product=product)
        try:
            return await self.ingest_item(by, item)
        except (Invalid, IdempotencyConflict) as no:
            await self._report_refusal(place, item, no)
            raise

    def product_of(self, place: TrackerBinding, item: Ticket) -> str | None:
        """Return the product of an item; None if it belongs to another tracker."""
        if place.name != FLEET:
            return place.name if item.product in (None, place.name) else None
        try:
            product = slug(item.product or DEFAULT_PRODUCT)
        except ValueError:
            return None
        return None if product in self._places else product

    async def record_defects(self, place: TrackerBinding, item: Ticket) -> None:
        """Record defects that an unassigned item reports."""
        if (product := self.product_of(place, item)) is not None:
            await self._defects.record_from_ticket(product, item)

    async def step(self) -> None:
        """Import assigned items from every tracker; an unavailable tracker is retried next time."""
        if not self._places or not await self._leadership.acquire():
            return
        for place in self._places.values():
            try:
                items = await place.tracker.items_for_agents()
                await self._import_all(place, items)
            except (TrackerUnavailable, TrackerRefused) as no:
                log.warning("tracker not read", tracker=place.name, reason=no.detail)

    async def _import_all(self, place: TrackerBinding, items: Sequence[Ticket]) -> None:
        for item in items:
            known, digest = (place.name, item.id), digest_of(item)
            if self._imported.get(known) == digest:
                continue
            try:
                await self.import_item(place, item)
            except Unavailable:
                raise
            except Refused as no:
                log.info("ticket refused", item=item.id, reason=no.detail)
            except Exception:
                # One ticket never stops the others.
                log.exception("ticket failed", item=item.id)
            else:
                self._imported[known] = digest

    async def _report_refusal(self, place: TrackerBinding, item: Ticket, refused: Refused) -> None:
        """Comment on an item why it was refused, and mark invalid ones for triage."""
        if not place.sends_updates:
            return
        digest = digest_of(item)
        try:
            if self._reported.get((place.name, item.id)) != digest:
                marker = f"<!-- aq:item:{digest[:32]} -->"
                await place.tracker.comment(
                    item.id, f"No job was created: {refused.detail}", marker
                )
                self._reported[place.name, item.id] = digest
            if isinstance(refused, Invalid):
                await place.tracker.update(item, None, (*item.labels, TRIAGE_LABEL))
        except TrackerRefused as deaf:
            log.warning("ticket refusal not reported", item=item.id, reason=deaf.detail)

    async def _key(self, product: str, item: Ticket, file: JobFile) -> str:
        """Return the key of an item's newest job; a new key if it ended and the item changed."""
        generation = 1
        newest: Job | None = None
        while (
            known_job := await self._find_by_key(product, ticket_key(item.id, generation))
        ) is not None:
            newest = known_job
            generation += 1
        if newest is None:
            return ticket_key(item.id)
        same = newest.content_hash == content_hash(file.manifest, file.body)
        ended = newest.finished and not same
        return ticket_key(item.id, generation if ended else generation - 1)

    async def _find_by_key(self, product: str, key: str) -> Job | None:
        for job_id in (await self._store.key_owners({idempotency_hold(product, key)})).values():
            return await self._store.job(job_id)
        return None


def _chosen_product(caller: Caller) -> str:
    """Return the caller's product; raises Forbidden without access."""
    caller.require("submit", OWN_PRODUCTS)
    product = caller.product or DEFAULT_PRODUCT
    if not caller.can_see(product):
        raise Forbidden(f"{caller.actor} has no access to product {product!r}; choose another")
    return product
