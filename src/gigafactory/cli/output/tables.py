"""Tables of jobs and attention items.

The fast path uses them, so they read plain JSON: wire records are slow to import.
"""

import json
from datetime import datetime

from gigafactory.cli.output.text import note, plain, say_json, table
from gigafactory.system.formatting import format_age

TYPE_CHECKING = False  # typing is slow to import
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
            "no job matches; `aq jobs` without filters lists all"
            if filtered
            else "no jobs yet; submit one with `aq submit FILE.md`"
        )
        return
    heads = ("ID", "NAME", "STAGE", "PRIORITY", "WHERE", "SINCE", "TITLE")
    table(heads, [_job(job) for job in page["jobs"]])
    if page.get("nextCursor"):
        note(f"more: --cursor {plain(page['nextCursor'])}")


def _job(job: "dict[str, Any]") -> tuple[object, ...]:
    lease, flags, title = job["lease"], job["flags"], job["title"]
    where = "@".join(filter(None, (job["engine"], lease["factoryId"] if lease else None)))
    if flags:
        title = f"{title}  [{', '.join(flags)}]"
    since = _ago(job["stageSince"])
    return (job["id"], job["name"], job["stage"], job["priority"], where, since, title)


def show_attention(body: bytes, *, as_json: bool) -> None:
    """Print the attention items."""
    if as_json:
        say_json(body)
        return
    waiting = json.loads(body)["attention"]
    if not waiting:
        note("nothing needs you")
        return
    heads = ("KIND", "SUBJECT", "SINCE", "ACTIONS", "TITLE", "WHY")
    table(heads, [_item(item) for item in waiting])


def _item(item: "dict[str, Any]") -> tuple[object, ...]:
    since, actions = _ago(item["since"]), ", ".join(item["actions"])
    return (item["kind"], item["subject"], since, actions, item["title"], item["reason"])


def _ago(written: str) -> str:
    return format_age(datetime.fromisoformat(written))
