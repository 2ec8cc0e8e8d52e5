"""Response time of web pages with few and many jobs, and time until open pages show an event."""

import asyncio
import tempfile
import time
from collections.abc import Mapping
from itertools import cycle
from pathlib import Path
from urllib.parse import urlencode, urlsplit

from events import bare_server
from fleet import API, Served, serving
from growth import a_change, a_factory
from harness import Harness
from msgspec.structs import replace
from table import Row, Section, ms, percentile, verdict
from wire import Wire

from gigafactory.domain.job.change import JobChange, RecordChange
from gigafactory.domain.job.job import Result, Stage
from gigafactory.store.sqlite.store import SqliteStore
from gigafactory.system.ids import RandomIds

REQUESTS = 200
OPEN = 200
EVENTS = 30
STAGES = cycle((Stage.SHIPPED,) * 14 + (Stage.FAILED, Stage.REVIEW, Stage.TESTING, Stage.QUEUED))
REBUILT = "job list, rendered again"
PLACES = {"job list": "/jobs", "board": "/jobs?view=board", "job page": "/jobs/{}"}


def sections(harness: Harness) -> list[Section]:
    """Measure three pages with few and many jobs, a bare page, and events on open pages."""
    many = 100_000 // harness.scale
    found: dict[int, Mapping[str, list[float]]] = {}
    for jobs in (1_000, many):
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(seed(Path(folder), jobs))
            with serving(data=Path(folder)) as served:
                found[jobs] = asyncio.run(page_times(served))
    with bare_server() as url:
        hello = sorted(asyncio.run(_time_page(Wire(url, ""), "/hello")))
    with serving() as served:
        shown = sorted(asyncio.run(event_times(served)))
    rows: list[Row] = [("bare page, same framework, p95", ms(percentile(hello, 0.95)), "", "")]
    for name in PLACES:
        rows += _page(name, many, sorted(found[1_000][name]), sorted(found[many][name]), hello)
    rebuilt = sorted(found[many][REBUILT])
    figures = f"{ms(percentile(rebuilt, 0.5))} / {ms(percentile(rebuilt, 0.95))}"
    rows.append((f"{REBUILT} after a submit, at {many:,} jobs, p50 / p95", figures, "", ""))
    late = percentile(shown, 0.95)
    rows.append(
        (
            f"submit sent → shown on all of {OPEN} open home pages, p50 / p95",
            f"{ms(percentile(shown, 0.5))} / {ms(late)}",
            "",
            verdict(met=late <= 0.15, goal="p95 ≤ 150 ms"),
        )
    )
    note = (
        f"A signed-in user requests each page {REQUESTS} times. A page is rendered once and shared"
        " by all its readers until something\non it changes. An event counts as shown when the last"
        " open page has received it; a browser takes a few\nmilliseconds more to draw it."
    )
    return [Section("Pages", rows, note)]


def _page(
    name: str, many: int, few_times: list[float], many_times: list[float], hello: list[float]
) -> list[Row]:
    grown = percentile(many_times, 0.5) / percentile(few_times, 0.5)
    beside = percentile(many_times, 0.95) / percentile(hello, 0.95)
    figures = f"{ms(percentile(few_times, 0.5))} → {ms(percentile(many_times, 0.5))}"
    return [
        (
            f"{name}, 1,000 → {many:,} jobs, p50",
            figures,
            f"{grown:.2f} ×",
            verdict(met=grown <= 2, goal="≤ 2 ×"),
        ),
        (
            f"{name} at {many:,} jobs, p95",
            ms(percentile(many_times, 0.95)),
            f"{beside:.1f} × the bare page",
            verdict(met=beside <= 5, goal="≤ 5 ×"),
        ),
    ]


def _a_stored_job(ids: RandomIds, number: int) -> JobChange:
    """Return a job in the next of `STAGES`; most are shipped."""
    change = a_change(ids, number)
    stage = next(STAGES)
    if stage is Stage.QUEUED:
        return change
    job = replace(change.after, stage=stage, result=Result.OK)
    return replace(change, after=job, take=())


async def seed(folder: Path, jobs: int) -> None:
    """Fill an embedded store with jobs in all stages."""
    ids = RandomIds()
    async with SqliteStore.open(folder / "fleet.db") as store:
        await store.commit(*(RecordChange(before=None, after=a_factory(n)) for n in range(10)))
        for start in range(0, jobs, 500):
            made = range(start, min(start + 500, jobs))
            await store.commit(*(_a_stored_job(ids, number) for number in made))


async def _signed_in(served: Served) -> Wire:
    """Sign in and return a connection with the session cookie."""
    admin = Wire(served.url, served.token)
    host = urlsplit((await admin.call("POST", f"{API}/logins"))["url"]).netloc
    admin.close()
    wire = Wire(served.url, served.token, host=host)
    body = urlencode({"token": served.token}).encode()
    reader = await wire.send("POST", "/login", body, "application/x-www-form-urlencoded")
    head = await reader.readuntil(b"\r\n\r\n")
    at = head.lower().index(b"set-cookie: ") + 12
    cookie = head[at : head.index(b";", at)].decode()
    wire.close()
    return Wire(served.url, served.token, cookie=cookie, host=host)


async def page_times(served: Served) -> Mapping[str, list[float]]:
    """Return the seconds of each request, by page."""
    wire = await _signed_in(served)
    [newest] = (await wire.call("GET", f"{API}/jobs?limit=1"))["jobs"]
    found = {
        name: await _time_page(wire, place.format(newest["id"])) for name, place in PLACES.items()
    }
    waits = []
    for number in range(50):
        await wire.call("POST", f"{API}/jobs", a_titled_job(f"new-{number}"))
        begun = time.perf_counter()
        await wire.raw("GET", "/jobs")
        waits.append(time.perf_counter() - begun)
    return found | {REBUILT: waits}


async def _time_page(wire: Wire, place: str) -> list[float]:
    waits = []
    for _ in range(REQUESTS + 5):
        begun = time.perf_counter()
        status, _ = await wire.raw("GET", place)
        waits.append(time.perf_counter() - begun)
        assert status == 200, (place, status)
    return waits[5:]


async def event_times(served: Served) -> list[float]:
    """Return the seconds from each submit until the last open page has received the event."""
    wire = await _signed_in(served)
    people = wire.twin()
    pages = [wire.twin() for _ in range(OPEN)]
    streams = [page.lines("/live/home") for page in pages]
    for stream in streams:
        await _wait_for(stream, b"part")
    waits = []
    for number in range(EVENTS):
        name = f"shown-{number}"
        begun = time.perf_counter()
        await people.call("POST", f"{API}/jobs", a_titled_job(name))
        await asyncio.gather(*(_wait_for(stream, name.encode()) for stream in streams))
        waits.append(time.perf_counter() - begun)
        # A part of a page is rendered at most twenty times a second: wait until none is pending.
        await asyncio.sleep(0.1)
    return waits


def a_titled_job(title: str) -> dict[str, object]:
    return {"manifest": {"engine": "command", "title": title}, "body": "true\n"}


async def _wait_for(stream: object, word: bytes) -> None:
    async for line in stream:  # type: ignore[attr-defined]
        if word in line:
            return
