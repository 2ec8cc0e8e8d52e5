"""The screen of a job: where it stands and why, what can be done, and its log as it grows."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import aclosing
from typing import ClassVar

from rich.text import Text
from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.events import Resize
from textual.message import Message
from textual.widgets import Static

from gigafactory.domain.errors import Refused
from gigafactory.system.formatting import format_age
from gigafactory.tui.model.actions import Choice, choices
from gigafactory.tui.model.source import Detail
from gigafactory.tui.screens.base import Shown
from gigafactory.tui.views.jobs import MARKS, state
from gigafactory.tui.widgets.log_view import LogLines
from gigafactory.tui.widgets.prompts import Words
from gigafactory.tui.widgets.text import DIM, RED, Cell, line, one_line, painted
from gigafactory.wire.jobs import JobView
from gigafactory.wire.runs import RunView

REASONS_MAX = 3


class Known(Message):
    """The job was asked for."""

    def __init__(self, detail: Detail) -> None:
        super().__init__()
        self.detail = detail


class Unknown(Message):
    """The job could not be asked for, or its log."""

    def __init__(self, refused: Refused) -> None:
        super().__init__()
        self.refused = refused


class Printed(Message):
    """Its log goes on."""

    def __init__(self, text: str, *, ended: bool = False) -> None:
        super().__init__()
        self.text = text
        self.ended = ended


class JobScreen(Shown):
    """One job."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,left", "back", show=False),
        Binding("f", "follow", show=False),
        Binding("down,j", "scroll(1)", show=False),
        Binding("up,k", "scroll(-1)", show=False),
        Binding("pagedown,space", "page(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("g,home", "edge(-1)", show=False),
        Binding("G,end", "edge(1)", show=False),
    ]

    def __init__(self, job_id: str) -> None:
        super().__init__()
        self.job_id = job_id
        self.detail: Detail | None = None
        self._stale = asyncio.Event()
        self._granted = asyncio.Event()
        self._words = ""
        self._ended = False

    def compose(self) -> ComposeResult:
        """What is known, the log, and what can be done."""
        yield Static(id="top")
        yield Static(id="facts")
        yield Static(id="logline")
        yield LogLines(id="log")
        yield Static(id="said")
        yield Static(id="keys")

    @property
    def log_lines(self) -> LogLines:
        """The log."""
        return self.query_one(LogLines)

    def on_mount(self) -> None:
        """Ask for the job, and follow its log."""
        self.log_lines.can_focus = False
        self._keep_asking()
        self._follow()
        self.show_now()

    @work(group="job")
    async def _keep_asking(self) -> None:
        while True:
            self._stale.clear()
            try:
                self.post_message(Known(await self.dash.plane.detail(self.job_id)))
            except Refused as refused:
                self.post_message(Unknown(refused))
            await self._stale.wait()

    @work(group="log")
    async def _follow(self) -> None:
        """Read the log of the newest run, and that of each run that comes after it."""
        mark: str | None = None
        while True:
            await self._granted.wait()
            self._granted.clear()
            ended = False
            while not ended:
                try:
                    async with aclosing(self.dash.plane.log(self.job_id, mark)) as parts:
                        async for part in parts:
                            self.post_message(Printed(part.text))
                            mark = part.mark or mark
                    ended = True
                except Refused as refused:
                    self.post_message(Unknown(refused))
                    await asyncio.sleep(self.dash.pace.retry)
            self.post_message(Printed("", ended=True))
            mark = None

    async def renew(self) -> None:
        """Know the job as it is now.

        Raises Refused.
        """
        self.known(Known(await self.dash.plane.detail(self.job_id)))

    @on(Known)
    def known(self, message: Known) -> None:
        """Show what is known; a run that was not there before has a log to read."""
        before, self.detail = self.detail, message.detail
        epoch = message.detail.job.lease_epoch
        if epoch > (before.job.lease_epoch if before else 0):
            self._granted.set()
            if before is not None and self.log_lines.count:
                self.log_lines.end()
                self.log_lines.feed("\x1b[2m── the next run ──\x1b[0m\n")
            self._ended = False
        self._show()

    @on(Unknown)
    def unknown(self, message: Unknown) -> None:
        """Say why it cannot be seen."""
        self.say(self.dash.told(message.refused), wrong=True)

    @on(Printed)
    def printed(self, message: Printed) -> None:
        """Show what was printed."""
        self.log_lines.feed(message.text)
        if message.ended:
            self.log_lines.end()
            self._ended = True
        self._show()

    def show_now(self) -> None:
        """Ask anew, and meanwhile show what is known with the time that it is."""
        self._stale.set()
        self._show()

    def _show(self) -> None:
        if not self.is_built:
            return
        detail = self.detail
        width = self.size.width - 2
        self.query_one("#top", Static).update(self._top(detail, width))
        facts = list(self._facts(detail, width)) if detail else []
        self.query_one("#facts", Static).update(Text("\n").join(facts))
        rule = Text(no_wrap=True).append(f"── {self._log_state()} ".ljust(width, "─"))
        self.query_one("#logline", Static).update(rule)
        self.show_keys([("Esc", "back"), ("/", "find"), ("f", "follow")])

    def _top(self, detail: Detail | None, width: int) -> Text:
        sign, colour = ("✗ no answer", RED) if self.dash.away else ("● live", "green")
        name = detail.job.name if detail else self.job_id
        title = detail.job.title if detail else "Looking …"
        cells = (
            Cell(name, min(32, max(8, len(one_line(name)))), "bold"),
            Cell(title, None),
            Cell(sign, 11, f"bold {colour}", right=True),
        )
        return line(width, cells, gap=2)

    def _facts(self, detail: Detail, width: int) -> Iterator[Text]:
        job, now = detail.job, self.dash.now()
        mark, colour = MARKS[job.stage]
        tint = colour if self.dash.seen.is_turn(job) or colour == RED else ""
        stage = job.stage.replace("_", " ")
        age = format_age(job.stage_since, now)
        where = f"{mark} {stage} · {state(self.dash.seen, job, now)} · {age}"
        yield line(width, (Cell(where, None, f"bold {tint}".strip()),))
        yield line(width, (Cell(" · ".join(_told(job)), None, DIM),))
        if detail.runs:
            yield line(width, (Cell(_run(detail.runs[-1]), None, DIM),))
        shown = [detail.why, *(each for each in detail.reasons if each != detail.why)]
        if job.reason and job.reason not in detail.why:
            shown.insert(0, job.reason)
        for number, reason in enumerate(each for each in shown[:REASONS_MAX] if each):
            yield painted(one_line(reason), "" if number == 0 else DIM)

    def _log_state(self) -> str:
        if self._words:
            return f"log, lines with {self._words!r}"
        if not self.log_lines.count and self.detail and self.detail.job.lease_epoch == 0:
            return "it has not run yet: no log"
        if self._ended:
            return "log, ended"
        return "log, following" if self.log_lines.auto_scroll else "log, f follows its end"

    def choices(self) -> Sequence[Choice]:
        """See Shown."""
        about = self.detail.job if self.detail else None
        return choices(about, self.dash.seen, self.dash.plane.offers)

    def action_find(self) -> None:
        """Show only lines of the log that have some words."""
        asked = Words("Show only lines with:", needed=False, given=self._words)
        self.app.push_screen(asked, self._find)

    def _find(self, words: str | None) -> None:
        if words is None:
            return
        self._words = words
        found = self.log_lines.find(words)
        self.say(f"{found} lines have it; Esc shows all" if words else "")
        self._show()

    def action_back(self) -> None:
        """End a search, else go back to the dashboard."""
        if self._words:
            self._find("")
        else:
            self.dismiss()

    def action_follow(self) -> None:
        """Follow the end of the log, or stay where one is."""
        self._stay(following=not self.log_lines.auto_scroll)

    def _stay(self, *, following: bool) -> None:
        self.log_lines.auto_scroll = following
        if following:
            self.log_lines.scroll_end(animate=False)
        self._show()

    def action_scroll(self, by: int) -> None:
        """Read a line further up or down."""
        self._stay(following=False)
        self.log_lines.scroll_relative(y=by, animate=False)

    def action_page(self, by: int) -> None:
        """Read a screen further up or down."""
        self._stay(following=False)
        self.log_lines.scroll_relative(y=by * (self.log_lines.size.height - 1), animate=False)

    def action_edge(self, by: int) -> None:
        """Go to the first line that is kept, or follow the end."""
        self._stay(following=by > 0)
        if by < 0:
            self.log_lines.scroll_home(animate=False)

    def on_resize(self, _event: Resize) -> None:
        """Fit into the new size."""
        self._show()


def _told(job: JobView) -> Iterator[str]:
    yield job.product_id
    for fact in (job.repo, job.profile, job.engine):
        if fact:
            yield fact
    yield f"{job.priority} priority"
    if job.deps:
        yield f"after {len(job.deps)}"
    yield f"by {job.submitted_by}"
    yield from job.flags


def _run(run: RunView) -> str:
    parts = [f"run {run.number} on {run.factory_id}"]
    if run.engine:
        parts.append(f"with {run.engine}")
    if run.result:
        parts.append(str(run.result).replace("_", " "))
    if run.usage is not None and run.usage.cost_usd is not None:
        parts.append(f"${run.usage.cost_usd}")
    if run.usage is not None and run.usage.tokens_out:
        parts.append(f"{run.usage.tokens_out} tokens out")
    return " · ".join(parts)
