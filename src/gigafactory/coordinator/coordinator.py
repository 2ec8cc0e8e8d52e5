"""The coordinator: wires all groups of actions, and runs the background duties."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta

from gigafactory.coordinator.access.enrolment import Enrolment
from gigafactory.coordinator.access.job_tokens import JobTokens
from gigafactory.coordinator.access.logins import Logins
from gigafactory.coordinator.access.tokens import Tokens
from gigafactory.coordinator.access.wrong_secrets import WrongSecrets
from gigafactory.coordinator.core.audit import AuditLog
from gigafactory.coordinator.core.committer import Committer
from gigafactory.coordinator.core.history import History
from gigafactory.coordinator.core.leadership import Leadership
from gigafactory.coordinator.core.ports import Blobs, Clock, Dispatch, Ids, Store, TrackerBinding
from gigafactory.coordinator.dispatch.claims import Claims
from gigafactory.coordinator.dispatch.dispatch_mode import DispatchControl
from gigafactory.coordinator.dispatch.dispatcher import Dispatcher
from gigafactory.coordinator.dispatch.offer_streams import OfferStreams
from gigafactory.coordinator.dispatch.preemptor import Preemptor
from gigafactory.coordinator.dispatch.shadow_dispatcher import ShadowDispatcher
from gigafactory.coordinator.duties.archiver import Archiver
from gigafactory.coordinator.duties.cron import Cron
from gigafactory.coordinator.duties.janitor import Janitor
from gigafactory.coordinator.duties.notifier import Channel, Messenger, Notifier
from gigafactory.coordinator.duties.reaper import Reaper
from gigafactory.coordinator.duties.treasurer import Treasurer
from gigafactory.coordinator.duties.unblocker import Unblocker
from gigafactory.coordinator.files.archive_file import ArchiveFile
from gigafactory.coordinator.files.archives import ArchiveQueries
from gigafactory.coordinator.files.artifact_links import ArtifactLinks
from gigafactory.coordinator.files.artifacts import ArtifactService
from gigafactory.coordinator.files.diffs import Diffs
from gigafactory.coordinator.files.log_readers import LogReader
from gigafactory.coordinator.files.logs import Logs
from gigafactory.coordinator.files.orphan_blobs import OrphanBlobs
from gigafactory.coordinator.fleet.budgets import Budgets
from gigafactory.coordinator.fleet.factories import Factories
from gigafactory.coordinator.fleet.halt import HaltSwitches
from gigafactory.coordinator.fleet.products import Products
from gigafactory.coordinator.fleet.scaling import Scaling
from gigafactory.coordinator.fleet.stop_running import StopRequests
from gigafactory.coordinator.index.index import Index
from gigafactory.coordinator.insights.attention import AttentionList
from gigafactory.coordinator.insights.event_streams import EventStreams
from gigafactory.coordinator.insights.insights import InsightQueries
from gigafactory.coordinator.insights.learner import Learner
from gigafactory.coordinator.insights.metrics import MetricsCollector
from gigafactory.coordinator.insights.observations import ObservationReader
from gigafactory.coordinator.insights.overview import Overview
from gigafactory.coordinator.insights.routing import RoutingService
from gigafactory.coordinator.insights.slo import Objectives
from gigafactory.coordinator.insights.tallier import Tallier
from gigafactory.coordinator.jobs.dag import DagQueries
from gigafactory.coordinator.jobs.defects import Defects
from gigafactory.coordinator.jobs.drafting import Drafter
from gigafactory.coordinator.jobs.previews import Previewer
from gigafactory.coordinator.jobs.profiles import ProfileCatalog
from gigafactory.coordinator.jobs.queries import JobQueries, ReviewQueries
from gigafactory.coordinator.jobs.submissions import Submissions
from gigafactory.coordinator.lifecycle.actions import Actions
from gigafactory.coordinator.lifecycle.composites import CompositeAdvancer
from gigafactory.coordinator.lifecycle.plans import PlanImporter
from gigafactory.coordinator.lifecycle.reports import Reports
from gigafactory.coordinator.runs.fencing import WorkerWrites
from gigafactory.coordinator.tracker.ticket_importer import TicketImporter
from gigafactory.coordinator.tracker.ticket_updater import TicketUpdater
from gigafactory.coordinator.tracker.webhooks import WebhookReceiver
from gigafactory.domain.errors import Unavailable
from gigafactory.domain.job.job import Priority
from gigafactory.domain.manifest.profile import Profile
from gigafactory.domain.tenancy.dispatch_mode import DispatchMode
from gigafactory.system.loops import run_every

NOTIFY_EVERY_S = 5.0
INDEX_EVERY_S = 5.0
"""Longer than `wait_for_change` takes: its query for lost notifications must not be cancelled."""


@dataclass(frozen=True, kw_only=True)
class CoordinatorSettings:
    """The settings that the coordinator itself needs."""

    coordinator_id: str
    lease_ttl: timedelta = timedelta(seconds=90)
    renew_every: timedelta = timedelta(seconds=20)
    heartbeat_every: timedelta = timedelta(seconds=15)
    fleet_seats: Mapping[str, int] = field(default_factory=dict)
    preempting_priorities: AbstractSet[Priority] = frozenset({Priority.CRITICAL})
    """Jobs of these priorities may preempt less urgent ones."""
    artifact_bytes_max: int = 256 << 20
    retention: timedelta = timedelta(days=90)
    """How long a finished job is kept."""
    archive_finished: bool = True
    """Whether a finished job is archived after that, or deleted for good."""
    default_mode: DispatchMode = DispatchMode.PUSH
    """The dispatch mode of products that have not set one."""
    exclusive_store: bool = False
    """Whether this coordinator owns the store, so that there can be no other coordinator."""
    trackers: Mapping[str, TrackerBinding] = field(default_factory=dict)
    tracker_auto: bool = True
    """Whether tickets are imported and updated automatically."""
    tracker_agent: str = "agent"
    tracker_poll_every: timedelta = timedelta(seconds=60)


class Coordinator:
    """All actions that the API offers, without knowledge of HTTP or of a database."""

    def __init__(
        self,
        store: Store,
        dispatch: Dispatch,
        blobs: Blobs,
        clock: Clock,
        ids: Ids,
        *,
        settings: CoordinatorSettings,
        builtin_profiles: Mapping[str, Profile],
        history: History | None = None,
    ) -> None:
        me = settings.coordinator_id
        self.settings = settings
        self.store = store
        self.clock = clock
        self.index = index = Index(
            store, clock, fleet_seats=dict(settings.fleet_seats), default_mode=settings.default_mode
        )
        self._committer = committer = Committer(store, clock, history)
        committer.on_conflict(index.on_conflict)
        workers = WorkerWrites(store, committer, clock, index)
        self.tokens = Tokens(store, committer, clock, ids, index)
        self.logins = Logins(store, committer, clock, ids, self.tokens)
        self.enrolment = Enrolment(store, committer, clock, ids, index, self.tokens)
        self.profiles = ProfileCatalog(store, committer, clock, builtin_profiles)
        self.products = Products(store, committer, clock)
        stops = StopRequests(store, committer, clock)
        self.halt_switches = HaltSwitches(store, committer, clock, index, stops)
        self.budgets = Budgets(store, committer, clock, index)
        self.treasurer = Treasurer(clock, index, stops)
        self.jobs = JobQueries(store, clock, index)
        self.leadership = Leadership(
            store, committer, clock, duty="dispatcher", me=me, exclusive=settings.exclusive_store
        )
        self.shadow = ShadowDispatcher(store, committer, clock, index, self.leadership, dispatch)
        self.dispatch_control = DispatchControl(store, committer, clock, index, self.shadow)
        self.dispatcher = Dispatcher(store, committer, clock, index, self.leadership, self.shadow)
        drafting = Drafter(store, clock, ids, self.profiles)
        self.submissions = Submissions(
            store, committer, clock, self.jobs, drafting, self.dispatcher
        )
        self.claims = Claims(store, committer, clock, index, workers, lease_ttl=settings.lease_ttl)
        self.job_tokens = JobTokens(committer, workers, self.tokens)
        self.factories = Factories(store, committer, clock, index, workers)
        self.offer_streams = OfferStreams(
            store, dispatch, index, workers, self.factories, coordinator_id=me
        )
        self.logs = Logs(blobs, workers)
        loose = OrphanBlobs(store, committer, clock, blobs)
        self.artifacts = ArtifactService(
            store,
            committer,
            clock,
            ids,
            self.jobs,
            workers,
            loose,
            bytes_max=settings.artifact_bytes_max,
        )
        plans = PlanImporter(store, self.artifacts, self.submissions)
        self.reports = Reports(committer, clock, workers, plans)
        self.actions = Actions(store, committer, clock, self.jobs, workers, plans)
        self.defects = Defects(committer, clock, self.jobs)
        self.artifact_links = ArtifactLinks(store, committer, clock, ids, self.artifacts)
        self.composites = CompositeAdvancer(store, committer, clock, workers, stops)
        self.notifier: Notifier | None = None
        self._build_reads()
        self._build_duties(ids, blobs, workers, loose)
        self._build_trackers()

    def _build_reads(self) -> None:
        store, clock, index = self.store, self.clock, self.index
        self.previewer = Previewer(clock, index, self.jobs, self.submissions)
        self.diffs = Diffs(self.jobs, self.artifacts)
        self.dags = DagQueries(store, self.jobs)
        observations = ObservationReader(store, clock)
        self.learner = Learner(store, self._committer, clock, index, observations)
        self.routing = RoutingService(
            store, self._committer, clock, index, observations, self.learner
        )
        self.attention = AttentionList(
            clock,
            self.jobs,
            self.factories,
            self.halt_switches,
            self.budgets,
            self.composites,
            self.routing,
        )
        self.event_streams = EventStreams(store, index, self.jobs, self.tokens)
        self.log_readers = LogReader(store, self.index, self.jobs, self.logs, self.tokens)
        self.reviews = ReviewQueries(self.jobs)
        self.audit = AuditLog(store)
        self.counters = counters = self._committer.counters
        self.metrics = MetricsCollector(store, clock, index, self.jobs, self.factories, counters)
        self.scaling = Scaling(index, clock)
        self.insights = InsightQueries(store, clock, self.jobs)
        self.objectives = Objectives(clock, counters, self.insights)
        self.overview = Overview(self.insights, self.objectives, observations)

    def _build_duties(
        self, ids: Ids, blobs: Blobs, workers: WorkerWrites, loose: OrphanBlobs
    ) -> None:
        store, committer, clock, index = self.store, self._committer, self.clock, self.index
        self.wrong_secrets = WrongSecrets(store, committer, clock)
        self.reaper = Reaper(store, committer, clock, workers)
        urgent = self.settings.preempting_priorities
        self.preemptor = Preemptor(store, committer, clock, index, self.leadership, urgent=urgent)
        self.unblocker = Unblocker(store, committer, clock)
        self.tallier = Tallier(store, committer, clock, index, self.leadership)
        self.cron = Cron(store, committer, clock, ids)
        self.janitor = Janitor(store, committer, clock, loose)
        self.archives = ArchiveQueries(store, blobs)
        self.archiver = Archiver(
            store,
            committer,
            clock,
            loose,
            ArchiveFile(store, self.logs, blobs),
            kept_for=self.settings.retention,
            archived=self.settings.archive_finished,
        )
        index.on_reload(self._recover_from_rollback)
        index.subscribe(self.unblocker.notice)
        index.subscribe(self.composites.notice)
        index.subscribe(self.cron.notice)

    def _build_trackers(self) -> None:
        store, committer, clock, settings = self.store, self._committer, self.clock, self.settings
        me, exclusive, places = settings.coordinator_id, settings.exclusive_store, settings.trackers
        looks = Leadership(store, committer, clock, duty="tickets", me=me, exclusive=exclusive)
        updates_leader = Leadership(
            store, committer, clock, duty="echoes", me=me, exclusive=exclusive
        )
        self._leads = [self.leadership, looks, updates_leader]
        self._tracked = bool(places) and settings.tracker_auto
        self.ticket_importer = TicketImporter(store, self.submissions, looks, self.defects, places)
        self.ticket_updater = TicketUpdater(
            store, committer, clock, self.jobs, self.ticket_importer, updates_leader, me=me
        )
        self.webhooks = WebhookReceiver(
            store,
            committer,
            clock,
            self.ticket_importer,
            self.wrong_secrets,
            places,
            agent=settings.tracker_agent,
        )

    def notify_through(self, messenger: Messenger, channels: Sequence[Channel]) -> None:
        """Add the notifier to the duties; without it, attention items are only listed."""
        self.notifier = Notifier(
            self.store, self._committer, self.clock, self.attention, messenger, channels
        )

    async def load(self) -> None:
        """Fill the index, and catch up on events that happened while no coordinator ran."""
        await self.index.load()
        await self._load_duties()

    async def _recover_from_rollback(self) -> None:
        self._committer.counters.store_rollbacks += 1
        await self._load_duties()

    async def _load_duties(self) -> None:
        """Let the duties load their state from the store, for events before the start."""
        self.tokens.clear_cache()
        await self.unblocker.sweep()
        await self.composites.load()
        await self.cron.load()
        await self.ticket_updater.load()

    async def _save_observed(self) -> None:
        """Store heartbeats and refresh the routing model."""
        await self.factories.save_last_seen()
        await self.learner.step()
        await self.shadow.save_comparisons()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Load, and run all duties until the block ends."""
        await self.load()
        loops = [
            run_every(
                INDEX_EVERY_S, self.index.catch_up, name="index", wake=self.index.wait_for_feed
            ),
            run_every(
                0.5, self.dispatcher.step, name="dispatcher", wake=self.index.wait_for_update
            ),
            run_every(0.5, self.preemptor.step, name="preemptor"),
            run_every(1.0, self.unblocker.step, name="unblocker", wake=self.index.wait_for_update),
            run_every(
                1.0, self.composites.step, name="composites", wake=self.index.wait_for_update
            ),
            run_every(1.0, self.reaper.step, name="reaper"),
            run_every(1.0, self.treasurer.step, name="treasurer", wake=self.index.wait_for_update),
            run_every(1.0, self.cron.step, name="cron"),
            run_every(5.0, self.offer_streams.step, name="offer streams"),
            run_every(5.0, self.tallier.step, name="tallier"),
            run_every(15.0, self._save_observed, name="last seen"),
            run_every(60.0, self.wrong_secrets.step, name="wrong secrets"),
            run_every(60.0, self.janitor.step, name="janitor"),
            run_every(60.0, self.archiver.step, name="archiver"),
        ]
        if self._tracked:
            looks_s = self.settings.tracker_poll_every.total_seconds()
            loops += [
                run_every(looks_s, self.ticket_importer.step, name="ticket importer"),
                run_every(
                    1.0,
                    self.ticket_updater.step,
                    name="ticket updater",
                    wake=self.index.wait_for_update,
                ),
            ]
        if self.notifier is not None:
            loops.append(run_every(NOTIFY_EVERY_S, self.notifier.step, name="notifier"))
        tasks = [asyncio.create_task(loop) for loop in loops]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            # If the store is unavailable, another coordinator takes over when the lease expires.
            with suppress(Unavailable):
                for duty in self._leads:
                    await duty.resign()
