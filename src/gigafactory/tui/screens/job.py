"""The screen of a job: state, reasons, actions and live log."""

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
from gigafactory.tui.model.actions import OfferedAction, actions_on
from gigafactory.tui.model.source import JobDetail
from gigafactory.tui.screens.base import LiveScreen
from gigafactory.tui.views.jobs import MARKS, describe_state
from gigafactory.tui.widgets.log_view import LogView
from gigafactory.tui.widgets.prompts import TextPrompt
from gigafactory.tui.widgets.text import DIM, RED, TextCell, one_line, render_cells, styled
from gigafactory.wire.jobs import JobView
from gigafactory.wire.runs import RunView

REASONS_MAX = 3


class JobLoaded(Message):
    """The job was loaded."""

    def __init__(self, detail: JobDetail) -> None:
        super().__init__()
        self.detail = detail


class JobLoadingFailed(Message):
    """The job or its log could not be loaded."""

    def __init__(self, refusal: Refused) -> None:
        super().__init__()
        self.refusal = refusal


class LogExtended(Message):
    """The log has grown or ended."""

    def __init__(self, text: str, *, ended: bool = False) -> None:
        super().__init__()
        self.text = text
        self.ended = ended


class JobScreen(LiveScreen):
    """One job with its log."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,left", "back", show=False),
        Binding("f", "follow", show=False),
        Binding("down,j", "scroll(1)", show=False),
        Binding("up,k", "scroll(-1)", show=False),
        Binding("pagedown,space", "page(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("g,home", "jump(-1)", show=False),
        Binding("G,end", "jump(1)", show=False),
    ]

    def __init__(self, job_id: str) -> None:
        super().__init__()
        self.job_id = job_id
        self.detail: JobDetail | None = None
        self._stale = asyncio.Event()
        self._run_granted = asyncio.Event()
        self._filter_text = ""
        self._log_ended = False

    def compose(self) -> ComposeResult:
        yield Static(id="top")
        yield Static(id="facts")
        yield Static(id="logline")
        yield LogView(id="log")
        yield Static(id="message")
        yield Static(id="keys")

    @property
    def log_view(self) -> LogView:
        """Return the log widget."""
        return self.query_one(LogView)

    def on_mount(self) -> None:
        self.log_view.can_focus = False
        self._keep_loading()
        self._follow_logs()
        self.redraw()

    @work(group="job")
    async def _keep_loading(self) -> None:
        while True:
            self._stale.clear()
            try:
                self.post_message(JobLoaded(await self.host.source.load_job(self.job_id)))
            except Refused as refused:
                self.post_message(JobLoadingFailed(refused))
            await self._stale.wait()

    @work(group="log")
    async def _follow_logs(self) -> None:
        """Follow the log of the newest run, then of each later run."""
        cursor: str | None = None
        while True:
            await self._run_granted.wait()
            self._run_granted.clear()
            ended = False
            while not ended:
                try:
                    async with aclosing(self.host.source.follow_log(self.job_id, cursor)) as parts:
                        async for part in parts:
                            self.post_message(LogExtended(part.text))
                            cursor = part.cursor or cursor
                    ended = True
                except Refused as refused:
                    self.post_message(JobLoadingFailed(refused))
                    await asyncio.sleep(self.host.retry_interval)
            self.post_message(LogExtended("", ended=True))
            cursor = None

    async def reload_now(self) -> None:
        """Reload the job and show it.

        Raises Refused.
        """
        self._store_detail(JobLoaded(await self.host.source.load_job(self.job_id)))

    @on(JobLoaded)
    def _store_detail(self, message: JobLoaded) -> None:
        before, self.detail = self.detail, message.detail
        epoch = message.detail.job.lease_epoch
        if epoch > (before.job.lease_epoch if before else 0):
            self._run_granted.set()
            if before is not None and self.log_view.count:
                self.log_view.finish()
                self.log_view.feed("\x1b[2m── next run ──\x1b[0m\n")
            self._log_ended = False
        self._draw()

    @on(JobLoadingFailed)
    def _show_failure(self, message: JobLoadingFailed) -> None:
        self.show_message(self.host.describe_refusal(message.refusal), is_error=True)

    @on(LogExtended)
    def _append_log(self, message: LogExtended) -> None:
        self.log_view.feed(message.text)
        if message.ended:
            self.log_view.finish()
            self._log_ended = True
        self._draw()

    def redraw(self) -> None:
        """Reload the job, and meanwhile redraw with the present time."""
        self._stale.set()
        self._draw()

    def _draw(self) -> None:
        if not self.is_built:
            return
        detail = self.detail
        width = self.size.width - 2
        self.query_one("#top", Static).update(self._top(detail, width))
        facts = list(self._facts(detail, width)) if detail else []
        self.query_one("#facts", Static).update(Text("\n").join(facts))
        rule = Text(no_wrap=True).append(f"── {self._log_state()} ".ljust(width, "─"))
        self.query_one("#logline", Static).update(rule)
        self.show_keys([("Esc", "back"), ("/", "filter"), ("f", "follow")])

    def _top(self, detail: JobDetail | None, width: int) -> Text:
        sign, colour = ("✗ no answer", RED) if self.host.outage else ("● live", "green")
        name = detail.job.name if detail else self.job_id
        title = detail.job.title if detail else "Loading …"
        cells = (
            TextCell(name, min(32, max(8, len(one_line(name)))), "bold"),
            TextCell(title, None),
            TextCell(sign, 11, f"bold {colour}", right=True),
        )
        return render_cells(width, cells, gap=2)

    def _facts(self, detail: JobDetail, width: int) -> Iterator[Text]:
        job, now = detail.job, self.host.now()
        mark, colour = MARKS[job.stage]
        key_colour = colour if self.host.snapshot.needs_person(job) or colour == RED else ""
        stage = job.stage.replace("_", " ")
        age = format_age(job.stage_since, now)
        where = f"{mark} {stage} · {describe_state(self.host.snapshot, job, now)} · {age}"
        yield render_cells(width, (TextCell(where, None, f"bold {key_colour}".strip()),))
        yield render_cells(width, (TextCell(" · ".join(_job_facts(job)), None, DIM),))
        if detail.runs:
            yield render_cells(width, (TextCell(_describe_run(detail.runs[-1]), None, DIM),))
        reasons = [detail.why, *(each for each in detail.reasons if each != detail.why)]
        if job.reason and job.reason not in detail.why:
            reasons.insert(0, job.reason)
        for number, reason in enumerate(each for each in reasons[:REASONS_MAX] if each):
            yield styled(one_line(reason), "" if number == 0 else DIM)

    def _log_state(self) -> str:
        if self._filter_text:
            return f"log, filtered by {self._filter_text!r}"
        if not self.log_view.count and self.detail and self.detail.job.lease_epoch == 0:
            return "no log: the job has not run yet"
        if self._log_ended:
            return "log, ended"
        return "log, following" if self.log_view.auto_scroll else "log, f follows the end"

    def available_actions(self) -> Sequence[OfferedAction]:
        job = self.detail.job if self.detail else None
        return actions_on(job, self.host.snapshot, self.host.source.supported_actions)

    def action_filter(self) -> None:
        """Ask for a text to filter the log by."""
        prompt = TextPrompt("Filter lines by text:", required=False, initial=self._filter_text)
        self.app.push_screen(prompt, self._set_filter)

    def _set_filter(self, text: str | None) -> None:
        if text is None:
            return
        self._filter_text = text
        match_count = self.log_view.set_filter(text)
        self.show_message(f"{match_count} matching lines; Esc shows all" if text else "")
        self._draw()

    def action_back(self) -> None:
        """Clear the filter, or else return to the main screen."""
        if self._filter_text:
            self._set_filter("")
        else:
            self.dismiss()

    def action_follow(self) -> None:
        """Follow the end of the log, or stop following."""
        self._set_following(following=not self.log_view.auto_scroll)

    def _set_following(self, *, following: bool) -> None:
        self.log_view.auto_scroll = following
        if following:
            self.log_view.scroll_end(animate=False)
        self._draw()

    def action_scroll(self, by: int) -> None:
        """Scroll by a line."""
        self._set_following(following=False)
        self.log_view.scroll_relative(y=by, animate=False)

    def action_page(self, by: int) -> None:
        """Scroll by a page."""
        self._set_following(following=False)
        self.log_view.scroll_relative(y=by * (self.log_view.size.height - 1), animate=False)

    def action_jump(self, by: int) -> None:
        """Go to the first line, or follow the end."""
        self._set_following(following=by > 0)
        if by < 0:
            self.log_view.scroll_home(animate=False)

    def on_resize(self, _event: Resize) -> None:
        self._draw()


def _job_facts(job: JobView) -> Iterator[str]:
    yield job.product_id
    for fact in (job.repo, job.profile, job.engine):
        if fact:
            yield fact
    yield f"{job.priority} priority"
    if job.deps:
        yield f"after {len(job.deps)}"
    yield f"by {job.submitted_by}"
    yield from job.flags


def _describe_run(run: RunView) -> str:
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
