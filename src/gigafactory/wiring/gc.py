"""Build garbage collection for a factory and for a folder."""

import asyncio
import os
from collections.abc import Callable
from datetime import UTC, datetime

from gigafactory.client.transport.async_client import AsyncClient
from gigafactory.config.projects import with_projects
from gigafactory.config.settings import Config, FactorySettings
from gigafactory.factory.agent.membership import load_membership
from gigafactory.factory.core.data_dir import DataDir
from gigafactory.factory.gc.branches import BranchCollector
from gigafactory.factory.gc.gc import DEFAULT_LIMITS, GarbageCollector, GcLimits
from gigafactory.factory.gc.job_status import FleetJobStates, JobStates, UnknownJobStates
from gigafactory.factory.gc.mirror_index import MirrorIndex
from gigafactory.factory.gc.mirrors import MirrorCollector
from gigafactory.factory.gc.report import GcReport
from gigafactory.factory.gc.worktrees import WorktreeCollector
from gigafactory.factory.git.mirror import Mirrors
from gigafactory.factory.git.repos import Repos
from gigafactory.factory.run import run_registry
from gigafactory.folder.queue.job_status import FolderJobStates, is_live
from gigafactory.folder.queue.store import FolderQueue
from gigafactory.wiring.git import build_git


def build_gc(
    data_dir: DataDir,
    mirrors: Mirrors,
    repos: Repos,
    states: JobStates,
    *,
    is_live: Callable[[str], bool],
    limits: GcLimits = DEFAULT_LIMITS,
) -> GarbageCollector:
    """Return the garbage collector of a data folder."""
    mirror_index = MirrorIndex(mirrors, repos, lambda: run_registry.load_runs(data_dir))
    return GarbageCollector(
        data_dir,
        is_live=is_live,
        states=states,
        worktrees=WorktreeCollector(mirror_index),
        tasks=(
            BranchCollector(mirror_index, states, unshipped_for=limits.unshipped),
            MirrorCollector(mirror_index, unused_for=limits.mirror),
        ),
        limits=limits,
    )


def build_folder_gc(queue: FolderQueue, mirrors: Mirrors, repos: Repos) -> GarbageCollector:
    """Return the garbage collector of a folder queue."""
    data_dir = queue.board.data_dir
    return build_gc(
        data_dir, mirrors, repos, FolderJobStates(queue), is_live=lambda job: is_live(queue, job)
    )


def collect_folder(config: Config, queue: FolderQueue, *, dry_run: bool) -> GcReport:
    """Collect the garbage of a folder queue once."""
    settings = with_projects(config, near=queue.board.root).factory
    git = build_git(settings, queue.board.data_dir, os.environ)
    collector = build_folder_gc(queue, git.mirrors, git.repos)
    return asyncio.run(collector.collect(datetime.now(UTC), dry_run=dry_run))


def collect_factory(config: Config, *, dry_run: bool) -> GcReport:
    """Collect the garbage of the factory on this machine once, running or not."""
    return asyncio.run(
        _collect_factory(with_projects(config).factory, DataDir.under(config.data), dry_run=dry_run)
    )


async def _collect_factory(
    settings: FactorySettings, data_dir: DataDir, *, dry_run: bool
) -> GcReport:
    git = build_git(settings, data_dir, os.environ)
    membership = load_membership(data_dir)

    async def collect(states: JobStates) -> GcReport:
        collector = build_gc(
            data_dir, git.mirrors, git.repos, states, is_live=_registered_jobs(data_dir)
        )
        return await collector.collect(datetime.now(UTC), dry_run=dry_run)

    if membership is None:
        return await collect(
            UnknownJobStates("this machine has joined no fleet (`aq factory enroll`)")
        )
    async with AsyncClient(membership.url, membership.token) as client:
        return await collect(FleetJobStates(client))


def _registered_jobs(data_dir: DataDir) -> Callable[[str], bool]:
    # From another process, every registered run may be running.
    return lambda job_id: any(run.job_id == job_id for run in run_registry.load_runs(data_dir))
