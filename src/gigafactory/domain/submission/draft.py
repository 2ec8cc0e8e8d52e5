"""Draft the record of a new job from its manifest."""

from datetime import datetime
from functools import lru_cache

import msgspec

from gigafactory.domain.composite.budget import Ceiling, ceiling_of
from gigafactory.domain.composite.plan import PLAN_FILE
from gigafactory.domain.job.job import (
    OVER_BUDGET,
    Ask,
    Job,
    JobSpec,
    Priority,
    Result,
    Roadmap,
    Terms,
)
from gigafactory.domain.manifest.encoder import manifest_to_json
from gigafactory.domain.manifest.manifest import JobFile, Manifest, content_hash, earliest_start
from gigafactory.domain.manifest.names import slugify
from gigafactory.domain.manifest.profile import Profile
from gigafactory.domain.manifest.repo import repo_name
from gigafactory.domain.manifest.resolution import resolve
from gigafactory.domain.submission.schedule import next_tick


class Draft(msgspec.Struct, frozen=True):
    """A new job before it is stored: revision 0, dependencies not resolved yet."""

    job: Job
    spec: JobSpec
    has_given_name: bool
    """Whether the name was given: then it must not be changed to make it unique."""
    deps: tuple[str, ...]
    ceiling: Ceiling | None = None
    """Only for a composite with a budget."""


def draft(
    file: JobFile,
    profile: Profile | None,
    *,
    job_id: str,
    product: str,
    by: str,
    now: datetime,
    parent_id: str | None = None,
) -> Draft:
    """Return the draft of a job; children get drafts of their own."""
    manifest = resolve(file.manifest, profile, product=product)
    composite = manifest.kind == "composite"
    named = manifest.name is not None
    name = manifest.name or slugify(manifest.title or "") or f"job-{job_id[-8:]}"
    job = Job(
        id=job_id,
        product_id=product,
        name=name,
        title=manifest.title or name,
        ask=_ask(manifest),
        terms=_composite_terms(file.manifest, profile, manifest) if composite else _terms(manifest),
        content_hash=content_hash(file.manifest, file.body),
        submitted_by=by,
        created_at=now,
        updated_at=now,
        stage_since=now,
        kind="composite" if composite else "leaf",
        roadmap=Roadmap() if composite else None,
        priority=Priority(manifest.priority or "medium"),
        lock=manifest.lock or _implicit_lock(manifest),
        profile=manifest.profile,
        model=manifest.model,
        words=len(file.body.split()),
        parent_id=parent_id,
        phase=manifest.phase,
        idempotency_key=manifest.idempotency_key,
        tracker_item=manifest.tracker_item,
        not_before=_first_start(manifest, now),
        rev=0,
    )
    # The plan is a planner's result: its runs upload it.
    leaves = (*manifest.artifacts, PLAN_FILE) if job.planner else manifest.artifacts
    stored = msgspec.structs.replace(manifest, children=(), artifacts=leaves)
    spec = JobSpec(job_id, msgspec.Raw(msgspec.json.encode(manifest_to_json(stored))), file.body)
    ceiling = ceiling_of(job, manifest.budget) if composite else None
    if ceiling is not None:
        flags = (OVER_BUDGET,) if ceiling.exhausted else ()
        job = msgspec.structs.replace(job, ceilings=(job.id,), flags=flags)
    return Draft(job, spec, named, manifest.deps, ceiling)


def _first_start(manifest: Manifest, now: datetime) -> datetime | None:
    start = earliest_start(manifest, now=now)
    if manifest.schedule is not None:
        return next_tick(manifest.schedule, max(now, start or now))
    return start


def _implicit_lock(manifest: Manifest) -> str | None:
    """Return the lock of jobs that run in place in the same folder."""
    return f"cwd:{manifest.cwd}" if manifest.cwd else None


def _ask(manifest: Manifest) -> Ask:
    return Ask(
        needs=tuple(sorted(set(manifest.capabilities))),
        repo=repo_name(manifest.repo) if manifest.repo else None,
        engine=manifest.engine,
        engine_class=manifest.engine_class or "agentic-coder",
        prefers_engine=manifest.prefers_engine,
        prefers=tuple(sorted(set(manifest.prefers))),
        budget_nano_usd=manifest.budget.usd_nanos if manifest.budget else None,
        sandbox=manifest.sandbox,
        yolo=bool(manifest.yolo),
    )


@lru_cache(maxsize=256)
def _results(names: tuple[str, ...]) -> tuple[Result, ...]:
    """Return the results of these names; cached, as most jobs share them."""
    return tuple(Result(name) for name in names)


def _composite_terms(given: Manifest, profile: Profile | None, resolved: Manifest) -> Terms:
    """Return the terms of a composite: phases need approval unless `auto`."""
    policy = given.review_policy or (profile.review_policy if profile else None)
    return msgspec.structs.replace(
        _terms(resolved),
        review_by_people=policy is None or policy.mode != "auto",
        ship="merge" if resolved.verify is not None else "none",
        # The ship policy of the planner profile does not apply to the planned jobs.
        auto_ship=given.ship_policy == "auto",
    )


def _terms(manifest: Manifest) -> Terms:
    retry, review = manifest.retry, manifest.review_policy
    assert retry is not None, "a resolved manifest says when to retry"
    assert retry.backoff is not None, "a resolved manifest says how soon to retry"
    assert review is not None, "a resolved manifest says who reviews"
    return Terms(
        retry_max=retry.max,
        retry_backoff_s=retry.backoff.total_seconds(),
        retry_on=_results(retry.on),
        verify=manifest.verify is not None,
        review_by_people=review.mode != "auto",
        reviewers=review.reviewers,
        quorum=review.quorum,
        ship=manifest.ship or "merge",
        auto_ship=manifest.ship_policy == "auto",
        deps_mode=manifest.deps_mode or "hard",
        on_dep_failure=manifest.on_dep_failure or "wait",
        schedule=manifest.schedule,
    )
