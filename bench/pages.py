"""What a page costs with many jobs beside few, and how soon an open page shows what is new."""

import asyncio
import tempfile
import time
from collections.abc import Mapping
from itertools import cycle
from pathlib import Path
from urllib.parse import urlencode

from events import bare_server
from fleet import API, Served, serving
from ground import Ground
from growth import a_change, a_factory
from msgspec.structs import replace
from table import Row, Section, ms, percentile, verdict
from wire import Wire

from gigafactory.domain.job.change import JobChange, RecordChange
from gigafactory.domain.job.job import Result, Stage
from gigafactory.store.sqlite.store import SqliteStore
from gigafactory.system.ids import RandomIds

LOOKS = 200
OPEN = 200
EVENTS = 30
STAGES = cycle((Stage.SHIPPED,) * 14 + (Stage.FAILED, Stage.REVIEW, Stage.TESTING, Stage.QUEUED))
ANEW = "job list, made anew"
PLACES = {"job list": "/jobs", "board": "/jobs?view=board", "job page": "/jobs/{}"}


def sections(ground: Ground) -> list[Section]:
    """Three pages at two sizes beside a bare one, and the way of an event to the pages."""
    many = 100_000 // ground.scale
    found: dict[int, Mapping[str, list[float]]] = {}
    for jobs in (1_000, many):
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(seed(Path(folder), jobs))
            with serving(data=Path(folder)) as served:
                found[jobs] = asyncio.run(looks(served))
    with bare_server() as url:
        hello = sorted(asyncio.run(_look(Wire(url, ""), "/hello")))
    with serving() as served:
        shown = sorted(asyncio.run(events_shown(served)))
    rows: list[Row] = [("bare page of the same server, p95", ms(percentile(hello, 0.95)), "", "")]
    for name in PLACES:
        rows += _page(name, many, sorted(found[1_000][name]), sorted(found[many][name]), hello)
    anew = sorted(found[many][ANEW])
    told = f"{ms(percentile(anew, 0.5))} / {ms(percentile(anew, 0.95))}"
    rows.append((f"{ANEW} after a submit, at {many:,} jobs, p50 / p95", told, "", ""))
    late = percentile(shown, 0.95)
    rows.append(
        (
            f"submit sent → in all of {OPEN} open home pages, p50 / p95",
            f"{ms(percentile(shown, 0.5))} / {ms(late)}",
            "",
            verdict(met=late <= 0.15, goal="p95 ≤ 150 ms"),
        )
    )
    note = (
        f"Each page is asked for {LOOKS} times by somebody who is signed in. What nothing has"
        " happened to is made once and shared\nby all who look; after a change it is made anew. Of"
        " events the last of the open pages counts; a browser takes a\nfew milliseconds more to"
        " draw it."
    )
    return [Section("Pages", rows, note)]


def _page(
    name: str, many: int, few: list[float], lots: list[float], hello: list[float]
) -> list[Row]:
    grown = percentile(lots, 0.5) / percentile(few, 0.5)
    beside = percentile(lots, 0.95) / percentile(hello, 0.95)
    told = f"{ms(percentile(few, 0.5))} → {ms(percentile(lots, 0.5))}"
    return [
        (
            f"{name}, 1,000 → {many:,} jobs, p50",
            told,
            f"{grown:.2f} ×",
            verdict(met=grown <= 2, goal="≤ 2 ×"),
        ),
        (
            f"{name} at {many:,} jobs, p95",
            ms(percentile(lots, 0.95)),
            f"{beside:.1f} × the bare page",
            verdict(met=beside <= 5, goal="≤ 5 ×"),
        ),
    ]


def _stored(ids: RandomIds, number: int) -> JobChange:
    """A job that stands somewhere; most have been shipped."""
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
            await store.commit(*(_stored(ids, number) for number in made))


async def _signed_in(served: Served) -> Wire:
    """A connection with the cookie of a browser."""
    wire = Wire(served.url, served.token)
    body = urlencode({"token": served.token}).encode()
    reader = await wire.send("POST", "/login", body, "application/x-www-form-urlencoded")
    head = await reader.readuntil(b"\r\n\r\n")
    at = head.lower().index(b"set-cookie: ") + 12
    cookie = head[at : head.index(b";", at)].decode()
    wire.close()
    return Wire(served.url, served.token, cookie=cookie)


async def looks(served: Served) -> Mapping[str, list[float]]:
    """Seconds of each look at each page."""
    wire = await _signed_in(served)
    [newest] = (await wire.call("GET", f"{API}/jobs?limit=1"))["jobs"]
    found = {name: await _look(wire, place.format(newest["id"])) for name, place in PLACES.items()}
    waits = []
    for number in range(50):
        await wire.call("POST", f"{API}/jobs", a_titled_job(f"new-{number}"))
        begun = time.perf_counter()
        await wire.raw("GET", "/jobs")
        waits.append(time.perf_counter() - begun)
    return found | {ANEW: waits}


async def _look(wire: Wire, place: str) -> list[float]:
    waits = []
    for _ in range(LOOKS + 5):
        begun = time.perf_counter()
        status, _ = await wire.raw("GET", place)
        waits.append(time.perf_counter() - begun)
        assert status == 200, (place, status)
    return waits[5:]


async def events_shown(served: Served) -> list[float]:
    """Seconds from each of many submits until the last of the open pages has heard of it."""
    wire = await _signed_in(served)
    people = wire.twin()
    pages = [wire.twin() for _ in range(OPEN)]
    streams = [page.lines("/live/home") for page in pages]
    for stream in streams:
        await _heard(stream, b"part")
    waits = []
    for number in range(EVENTS):
        name = f"shown-{number}"
        begun = time.perf_counter()
        await people.call("POST", f"{API}/jobs", a_titled_job(name))
        await asyncio.gather(*(_heard(stream, name.encode()) for stream in streams))
        waits.append(time.perf_counter() - begun)
        # A part is made at most twenty times a second: each event meets a page at rest.
        await asyncio.sleep(0.1)
    return waits


def a_titled_job(title: str) -> dict[str, object]:
    return {"manifest": {"engine": "command", "title": title}, "body": "true\n"}


async def _heard(stream: object, word: bytes) -> None:
    async for line in stream:  # type: ignore[attr-defined]
        if word in line:
            return
