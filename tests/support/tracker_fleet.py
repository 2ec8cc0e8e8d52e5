"""Coordinators with trackers, whose duties the test runs step by step on its own clock."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import httpx

from gigafactory.api.app import create_app
from gigafactory.blobs.files import FileBlobs
from gigafactory.config.settings import ProductTrackerSettings as TrackerProductSettings
from gigafactory.config.settings import TrackerSettings
from gigafactory.coordinator.coordinator import Coordinator, CoordinatorSettings
from gigafactory.coordinator.core.ports import Store, TrackerBinding
from gigafactory.dispatch.local import LocalDispatch
from gigafactory.domain.job.job import Job
from gigafactory.domain.tenancy.access import Role
from gigafactory.profiles import shipped
from gigafactory.store.memory import MemoryStore
from gigafactory.system.clock import SystemClock
from gigafactory.system.ids import RandomIds
from gigafactory.wiring.trackers import open_trackers
from tests.services.items_server import TOKEN, Items
from tests.support.api_server import SYSTEM, Server, Worker, a_worker, serving

SECRET = "secret-of-the-webhooks"
ENVIRON = {"TRACKER_TOKEN": TOKEN, "TRACKER_SECRET": SECRET}


class OffsetClock:
    """The system's clock with an offset."""

    def __init__(self) -> None:
        self._clock = SystemClock()
        self.offset = timedelta()

    def now(self) -> datetime:
        return self._clock.now() + self.offset


@dataclass
class Fleet:
    """A coordinator that serves HTTP and whose tracker duties run step by step."""

    server: Server
    items: Items
    clock: OffsetClock
    store: Store
    folder: Path
    trackers: dict[str, TrackerBinding]

    @property
    def coordinator(self) -> Coordinator:
        return self.server.coordinator

    async def import_tickets(self) -> None:
        """Import tickets."""
        await self.coordinator.ticket_importer.step()

    async def update_tickets(self) -> None:
        """Send updates to tickets."""
        await self.coordinator.ticket_updater.step()

    async def jobs(self) -> Sequence[dict[str, Any]]:
        """Return all jobs of the product, oldest first."""
        async with self.client() as client:
            found = (await client.get("/jobs?sort=oldest")).json()
        jobs: list[dict[str, Any]] = found["jobs"]
        return jobs

    async def job(self, job_id: str) -> Job:
        job = await self.store.job(job_id)
        assert job is not None
        return job

    def client(self) -> httpx.AsyncClient:
        return self.server.client(product="notes")

    @asynccontextmanager
    async def worker(self) -> AsyncIterator[Worker]:
        async with a_worker(self.server, products=["notes"]) as worker:
            yield worker

    def successor(self, name: str) -> Coordinator:
        """Return another coordinator on the same store with the same trackers."""
        return a_coordinator(self.store, self.folder, self.clock, self.trackers, name)


def a_coordinator(
    store: Store, folder: Path, clock: OffsetClock, trackers: dict[str, TrackerBinding], name: str
) -> Coordinator:
    return Coordinator(
        store,
        LocalDispatch(),
        FileBlobs(folder / "blobs"),
        clock,
        RandomIds(),
        settings=CoordinatorSettings(coordinator_id=name, trackers=trackers, tracker_auto=False),
        builtin_profiles=shipped(),
    )


@asynccontextmanager
async def a_fleet(
    items: Items,
    folder: Path,
    *,
    store: Store | None = None,
    others: Mapping[str, TrackerProductSettings] | None = None,
) -> AsyncIterator[Fleet]:
    """Start a fleet with the tickets of product `notes`; `others` are further trackers."""
    notes_tracker = TrackerProductSettings(
        url=items.url, token_env="TRACKER_TOKEN", secret_env="TRACKER_SECRET", repo="notes"
    )
    settings = TrackerSettings(products={"notes": notes_tracker, **(others or {})})
    clock, used_store = OffsetClock(), store or MemoryStore()
    async with open_trackers(settings, ENVIRON) as trackers:
        coordinator = a_coordinator(used_store, folder, clock, dict(trackers), "first")
        async with coordinator.running():
            admin = await coordinator.tokens.issue(SYSTEM, "admin", Role.ADMIN, ("*",))
            app = create_app(coordinator)
            async with serving(app) as url:
                server = Server(
                    url=url,
                    pages=url,
                    admin_token=admin.secret,
                    coordinator=coordinator,
                    app=app,
                    blobs=folder / "blobs",
                )
                yield Fleet(server, items, clock, used_store, folder, dict(trackers))
