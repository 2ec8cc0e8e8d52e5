"""Tickets in: what people have handed over in their tracker becomes jobs, each once."""

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
from gigafactory.domain.tenancy.access import Caller, Role
from gigafactory.domain.tenancy.product import DEFAULT_PRODUCT
from gigafactory.domain.tracker.ticket import (
    TRIAGE_LABEL,
    Ticket,
    digest_of,
    job_file_of,
    ticket_key,
    with_key,
)

WHO = "system:tracker"
HINT = "name one in the settings, under [tracker.products]"

log = structlog.get_logger()


class RejectedItem(msgspec.Struct, frozen=True, rename="camel"):
    """An item that did not become a job, and why."""

    item_id: str
    code: str
    detail: str


class ImportResult(msgspec.Struct, frozen=True):
    """What became of some items."""

    jobs: tuple[Job, ...] = ()
    created: bool = False
    refused: tuple[RejectedItem, ...] = ()


class TicketImporter:
    """The verbs that take items in, and the duty that looks for them."""

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
        """What each item asked for, as a digest, when it became a job: that is done."""
        self._reported: dict[tuple[str, str], str] = {}
        """What each item asked for when it was told that it cannot be a job."""

    def find_tracker(self, product: str) -> TrackerBinding | None:
        """The tracker of a product; None when it has none."""
        return self._places.get(product) or self._places.get(FLEET)

    def require_tracker(self, product: str) -> TrackerBinding:
        """The tracker of a product.

        Raises NotFound.
        """
        place = self.find_tracker(product)
        if place is None:
            raise NotFound("tracker of product", product, HINT)
        return place

    async def ingest(self, caller: Caller, item_id: str) -> SubmissionResult:
        """Make a job of an item, whoever asked for it there; the same item twice is one job.

        Raises NotFound, TrackerUnavailable, TrackerRefused, and what a submission is refused with.
        """
        place = self.require_tracker(_chosen_product(caller))
        item = await place.tracker.item(item_id)
        if item is None:
            raise NotFound("item", item_id, "look at its number in the tracker")
        return await self.ingest_item(caller, item)

    async def ingest_item(self, caller: Caller, item: Ticket) -> SubmissionResult:
        """Make a job of an item that the caller brings along.

        Raises what a submission is refused with.
        """
        product = _chosen_product(caller)
        place = self.find_tracker(product)
        if item.product not in (None, product):
            fault = Fault("product", f"it belongs to {item.product!r}, and {product!r} was chosen")
            raise Invalid(f"the ticket {item.id}", [fault])
        file = job_file_of(item, repo=place.default_repo if place else None)
        key = await self._key(product, item, file)
        # An item and its content are a key of their own.
        asking = replace(caller, product=product, request_key=None)
        return await self._submissions.submit(asking, [with_key(file, key)])

    async def ingest_waiting(self, caller: Caller) -> ImportResult:
        """Make jobs of all that waits in the tracker of the caller's product.

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
        """Make a job of an item that was handed over; why it cannot be is told there too.

        One that belongs to another tracker is none. Raises what a submission is refused with, when
        the item has been told.
        """
        product = self.product_of(place, item)
        if product is None:
            return SubmissionResult((), created=False)
        await self._defects.record_from_ticket(product, item)
        by = caller or Caller(actor=WHO, role=Role.OPERATOR, products=("*",), product=product)
        try:
            return await self.ingest_item(by, item)
        except (Invalid, IdempotencyConflict) as no:
            await self._report_refusal(place, item, no)
            raise

    def product_of(self, place: TrackerBinding, item: Ticket) -> str | None:
        """The product of an item of this tracker; None when it is another tracker's."""
        if place.name != FLEET:
            return place.name if item.product in (None, place.name) else None
        try:
            product = slug(item.product or DEFAULT_PRODUCT)
        except ValueError:
            return None
        return None if product in self._places else product

    async def record_defects(self, place: TrackerBinding, item: Ticket) -> None:
        """Hear what an item complains of that was not handed over."""
        if (product := self.product_of(place, item)) is not None:
            await self._defects.record_from_ticket(product, item)

    async def step(self) -> None:
        """Look for what was handed over, in every tracker; one that is away is asked next time."""
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
                log.info("ticket not taken", item=item.id, reason=no.detail)
            else:
                self._imported[known] = digest

    async def _report_refusal(self, place: TrackerBinding, item: Ticket, no: Refused) -> None:
        """Tell an item why it is no job; what needs a change by people is theirs from then on."""
        if not place.sends_updates:
            return
        digest = digest_of(item)
        try:
            if self._reported.get((place.name, item.id)) != digest:
                marker = f"<!-- aq:item:{digest[:32]} -->"
                await place.tracker.comment(item.id, f"No job was made: {no.detail}", marker)
                self._reported[place.name, item.id] = digest
            if isinstance(no, Invalid):
                await place.tracker.update(item, None, (*item.labels, TRIAGE_LABEL))
        except TrackerRefused as deaf:
            log.warning("ticket not told", item=item.id, reason=deaf.detail)

    async def _key(self, product: str, item: Ticket, file: JobFile) -> str:
        """The key of an item's newest job; the next one when that has ended, and people go on."""
        generation = 1
        newest: Job | None = None
        while (
            found := await self._find_by_key(product, ticket_key(item.id, generation))
        ) is not None:
            newest = found
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
    """The product that a caller is about.

    Raises Forbidden.
    """
    caller.require("submit")
    product = caller.product or DEFAULT_PRODUCT
    if not caller.can_see(product):
        raise Forbidden(f"{caller.actor} has no access to product {product!r}; choose another")
    return product
