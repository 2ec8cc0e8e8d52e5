"""Job endpoints: submit, list, read, act."""

from collections.abc import Mapping
from functools import partial

import msgspec
from litestar import get, post
from litestar.types import ASGIApp

from gigafactory.api.http.cursor import decode_cursor, encode_cursor
from gigafactory.api.http.decoding import decode_document
from gigafactory.api.http.examples import FILE, JOB, MANIFEST
from gigafactory.api.http.limits import BATCH_BYTES_MAX, FILE_BYTES_MAX
from gigafactory.api.http.operation import Body, operation
from gigafactory.api.http.request import ApiRequest
from gigafactory.api.http.response import json_response
from gigafactory.api.render import jobs as views
from gigafactory.coordinator.core.ports import JobQuery
from gigafactory.coordinator.lifecycle.actions import ActionRequest
from gigafactory.domain.errors import Fault, Invalid, Malformed
from gigafactory.domain.job.job import Stage
from gigafactory.domain.job.lifecycle import ACTIONS
from gigafactory.domain.manifest.job_file import parse_job_file, parse_json_job
from gigafactory.domain.manifest.manifest import JobFile
from gigafactory.wire.jobs import ActionDoc, JobFilter, JobIncludes, JobsView, JobView
from gigafactory.wire.limits import BATCH_MAX
from gigafactory.wire.submissions import BatchDoc, FileNameQuery, JobDoc

TAG = "Jobs"
MARKDOWN = frozenset({b"text/markdown", b"text/x-markdown", b"text/plain"})
FAULTS_MAX = 100


@post(
    "/jobs",
    opt=operation(
        TAG,
        body=(
            Body(of=(JobDoc, BatchDoc), example=MANIFEST),
            Body(media_type="text/markdown", example=FILE),
        ),
        query=FileNameQuery,
        responses={
            201: Body(of=(JobView, JobsView), example=JOB, description="accepted"),
            200: Body(of=(JobView, JobsView), description="submitted before"),
        },
        errors=(409,),
        headers=("x-file-name",),
    ),
)
async def submit_job(request: ApiRequest) -> ASGIApp:
    """Submit a job, or a batch of them.

    Send a job file as `text/markdown`, one job as `{"manifest", "body"}`, or several as
    `{"jobs": […]}`, which are all stored or none. A job that was submitted before with the same
    idempotency key is returned instead.
    """
    caller = await request.caller("submit")
    files, many = await _read_submission(request)
    submitted = await request.coordinator.submissions.submit(caller, files)
    jobs = request.coordinator.jobs
    job_views = tuple(views.render_job(jobs.with_fleet_flags(job)) for job in submitted.jobs)
    status = 201 if submitted.created else 200
    return json_response(JobsView(jobs=job_views) if many else job_views[0], status)


async def _read_submission(request: ApiRequest) -> tuple[list[JobFile], bool]:
    media_type = (request.header(b"content-type") or b"").partition(b";")[0].strip().lower()
    if media_type in MARKDOWN:
        name = request.query(FileNameQuery).name or (request.header(b"x-file-name") or b"").decode(
            "latin-1"
        )
        stem = name.rpartition("/")[2].removesuffix(".md")
        parse = partial(parse_job_file, stem=stem or None)
        return [await request.parse_body(parse, bytes_max=FILE_BYTES_MAX)], False
    if media_type != b"application/json":
        found_type = media_type.decode("latin-1") or "none"
        raise Malformed(f"the content type is {found_type}; send text/markdown or application/json")
    return await request.parse_body(_parse_json, bytes_max=BATCH_BYTES_MAX)


def _parse_json(body: bytes) -> tuple[list[JobFile], bool]:
    document = decode_document(body)
    if "jobs" not in document:
        return [parse_json_job(document)], False
    return parse_batch(document, BATCH_MAX), True


def parse_batch(document: Mapping[str, object], most: int) -> list[JobFile]:
    """Parse all jobs of a batch.

    Raises Invalid with the faults of all jobs, each prefixed with its index.
    """
    given = document.get("jobs")
    faults = [Fault(key, "is not known; expected only jobs") for key in document if key != "jobs"]
    if not isinstance(given, list) or not 0 < len(given) <= most:
        found_count = f"found {len(given)} jobs; " if isinstance(given, list) else ""
        faults.append(Fault("jobs", f"{found_count}expected a list of 1 to {most} jobs"))
        given = []
    files = []
    for number, each in enumerate(given):
        if len(faults) >= FAULTS_MAX:
            break
        try:
            files.append(_job(each))
        except Invalid as wrong:
            place = f"jobs[{number}]"
            faults += [
                Fault(f"{place}.{fault.field}" if fault.field else place, fault.message)
                for fault in wrong.faults
            ]
    if faults:
        raise Invalid("the batch", faults[:FAULTS_MAX])
    return files


def _job(given: object) -> JobFile:
    if not isinstance(given, dict):
        raise Invalid("the job", [Fault("", "expected an object with manifest and body")])
    return parse_json_job(given)


@get(
    "/jobs",
    opt=operation(TAG, query=JobFilter, responses={200: Body(of=JobsView)}),
)
async def list_jobs(request: ApiRequest) -> ASGIApp:
    """List jobs, newest first, a page at a time.

    `x-product-id` chooses the product. `nextCursor` is null on the last page. `id` returns those of
    the named jobs that exist; it cannot be combined with other filters.
    """
    caller = await request.caller()
    wanted = request.query(JobFilter)
    if wanted.id is not None:
        jobs_by_id = await request.coordinator.jobs.find_many(caller, _ids_only(wanted))
        return json_response(
            JobsView(jobs=tuple(views.render_job(job) for job in jobs_by_id), next_cursor=None)
        )
    query = JobQuery(
        stages=tuple(Stage(name) for name in wanted.stage.split(",")) if wanted.stage else (),
        repo=wanted.repo,
        profile=wanted.profile,
        engine=wanted.engine,
        factory_id=wanted.factory,
        priority=wanted.priority,
        parent_id=wanted.parent,
        text=wanted.text or None,
        oldest_first=wanted.sort == "oldest",
        limit=wanted.limit,
    )
    scoped_query = (caller.products, caller.product, query)
    page = msgspec.structs.replace(query, after=decode_cursor(wanted.cursor, scoped_query))
    jobs = await request.coordinator.jobs.find(caller, page)
    next_cursor = encode_cursor(jobs[-1].id, scoped_query) if len(jobs) == wanted.limit else None
    return json_response(
        JobsView(jobs=tuple(views.render_job(job) for job in jobs), next_cursor=next_cursor)
    )


def _ids_only(wanted: JobFilter) -> frozenset[str]:
    """Return the requested job ids.

    Raises Invalid when another filter is set.
    """
    if wanted.id is None or wanted != JobFilter(id=wanted.id):
        raise Invalid(
            "the query", [Fault("id", "cannot be combined with other filters; remove them")]
        )
    return frozenset(wanted.id.split(","))


@get(
    "/jobs/{job_id:str}",
    opt=operation(
        TAG, query=JobIncludes, responses={200: Body(of=JobView, example=JOB)}, errors=(404,)
    ),
)
async def get_job(request: ApiRequest) -> ASGIApp:
    """Return one job, by its id or, in the chosen product, by its name.

    A factory reads `body`, `events`, `runs` and `artifacts` of the jobs that it has or had.
    """
    caller = await request.caller_or_agent()
    include = request.query(JobIncludes).include.split(",")
    jobs = request.coordinator.jobs
    job = await jobs.get(
        caller, request.path_name("job_id", "job"), state_only=set(include) <= {"", "manifest"}
    )
    spec = await jobs.spec(job) if {"manifest", "body"} & set(include) else None
    events = await jobs.events(job) if "events" in include else ()
    runs = await jobs.runs(job) if "runs" in include else ()
    files = await request.coordinator.artifacts.list_files(job) if "artifacts" in include else ()
    return json_response(
        views.render_job(job, spec=spec, include=include, events=events, runs=runs, artifacts=files)
    )


@post(
    "/jobs/{job_id:str}/actions/{action:str}",
    opt=operation(
        TAG,
        body=Body(of=ActionDoc, example={"reason": "looks right", "commit": "4f2a91c"}),
        responses={200: Body(of=JobView, example=JOB)},
        errors=(404, 409),
        optional_body=True,
    ),
)
async def act_on_job(request: ApiRequest) -> ASGIApp:
    """Apply an action to a job.

    Actions: ship, requeue, reject, approve, cancel, request-changes, request-review, promote,
    preempt, release, override-scope; 409 when the job's stage does not allow it. Approve and ship
    carry the `commit` that was looked at, if the job has one: 422 without it, 409 when the work
    has changed since.
    """
    action = request.path_name("action", "action")
    caller = await request.caller(action if action in ACTIONS else None)
    doc = await request.json_body(ActionDoc)
    details = ActionRequest(reason=doc.reason or doc.comment, commit=doc.commit, fresh=doc.fresh)
    job = await request.coordinator.actions.act(
        caller, request.path_name("job_id", "job"), action, details
    )
    return json_response(views.render_job(request.coordinator.jobs.with_fleet_flags(job)))


ROUTES = (submit_job, list_jobs, get_job, act_on_job)
