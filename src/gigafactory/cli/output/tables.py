"""The lists that people look at most: an answer of the API as a table.

They are shown at a glance, so they read the JSON itself: records take long to import.
"""

import json
from datetime import datetime

from gigafactory.cli.output.text import note, plain, say_json, table
from gigafactory.system.formatting import format_age

TYPE_CHECKING = False  # the same holds for typing
if TYPE_CHECKING:
    from typing import Any


def show_jobs(body: bytes, *, as_json: bool, filtered: bool = False) -> None:
    """Print a page of jobs."""
    if as_json:
        say_json(body)
        return
    page = json.loads(body)
    if not page["jobs"]:
        note(
            "no job is like that; `aq jobs` without filters lists all"
            if filtered
            else "there are no jobs yet; hand one in with `aq submit FILE.md`"
        )
        return
    heads = ("ID", "NAME", "STAGE", "PRIORITY", "WHERE", "SINCE", "TITLE")
    table(heads, [_job(job) for job in page["jobs"]])
    if page.get("nextCursor"):
        note(f"there are more: --cursor {plain(page['nextCursor'])}")


def _job(job: "dict[str, Any]") -> tuple[object, ...]:
    lease, flags, title = job["lease"], job["flags"], job["title"]
    where = "@".join(filter(None, (job["engine"], lease["factoryId"] if lease else None)))
    if flags:
        title = f"{title}  [{', '.join(flags)}]"
    since = _ago(job["stageSince"])
    return (job["id"], job["name"], job["stage"], job["priority"], where, since, title)


def show_attention(body: bytes, *, as_json: bool) -> None:
    """Print what waits for a person."""
    if as_json:
        say_json(body)
        return
    waiting = json.loads(body)["attention"]
    if not waiting:
        note("nothing waits for you")
        return
    heads = ("KIND", "SUBJECT", "SINCE", "ACTIONS", "TITLE", "WHY")
    table(heads, [_matter(matter) for matter in waiting])


def _matter(matter: "dict[str, Any]") -> tuple[object, ...]:
    since, actions = _ago(matter["since"]), ", ".join(matter["actions"])
    return (matter["kind"], matter["subject"], since, actions, matter["title"], matter["reason"])


def _ago(written: str) -> str:
    return format_age(datetime.fromisoformat(written))
