"""The dashboard application: loads snapshots on every change and performs the actions of keys."""

import asyncio
from collections.abc import Callable
from contextlib import aclosing, suppress
from datetime import UTC, datetime

import msgspec
from textual import on, work
from textual.app import App
from textual.message import Message
from textual.timer import Timer

from gigafactory.domain.errors import Invalid, Refused
from gigafactory.tui.model.actions import OfferedAction, Prompt
from gigafactory.tui.model.source import ActionInput, DashboardSnapshot, DashboardSource
from gigafactory.tui.screens.base import LiveScreen
from gigafactory.tui.screens.dashboard import DashboardScreen
from gigafactory.tui.screens.job import JobScreen
from gigafactory.tui.widgets.prompts import ConfirmPrompt, TextPrompt


class RefreshIntervals(msgspec.Struct, frozen=True, kw_only=True):
    """Intervals of loading snapshots, in seconds."""

    debounce: float = 0.3
    """Changes within this time are loaded together."""
    poll: float = 5.0
    """Reload after this time without a change: offline factories, for example, send no event."""
    retry: float = 2.0
    """Wait this long after a failure."""


DEFAULT_INTERVALS = RefreshIntervals()


class SnapshotLoaded(Message):
    """A snapshot was loaded."""

    def __init__(self, snapshot: DashboardSnapshot) -> None:
        super().__init__()
        self.snapshot = snapshot


class LoadingFailed(Message):
    """The source could not be loaded."""

    def __init__(self, refusal: Refused) -> None:
        super().__init__()
        self.refusal = refusal


class DashboardApp(App[None]):
    """The terminal dashboard of one source."""

    CSS_PATH = "dash.tcss"
    ENABLE_COMMAND_PALETTE = False
    TITLE = "aq dash"

    def __init__(
        self,
        source: DashboardSource,
        *,
        hint: Callable[[Refused], str | None] = lambda _: None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        intervals: RefreshIntervals = DEFAULT_INTERVALS,
    ) -> None:
        """Show this source; `hint` returns the next step for a refusal, if any."""
        super().__init__()
        self.source = source
        self._now = now
        self.intervals = intervals
        self.snapshot = DashboardSnapshot()
        self.loaded_at: datetime | None = None
        self.outage: str | None = None
        """Why the source cannot be loaded; None while it can."""
        self.filter_text = ""
        """Only jobs that match this text are shown."""
        self._hint = hint
        self._stale = asyncio.Event()
        self._clock_timer: Timer | None = None

    def on_mount(self) -> None:
        # Use the 16 colours of the terminal: every terminal has them, in its user's theme.
        self.theme = "ansi-dark"
        self.push_screen(DashboardScreen())
        self._keep_loading()
        self._watch_changes()
        self._clock_timer = self.set_interval(1.0, self.redraw_screens)

    async def on_unmount(self) -> None:
        self.workers.cancel_all()
        await self.source.close()

    @work(group="loading")
    async def _keep_loading(self) -> None:
        while True:
            self._stale.clear()
            try:
                self.post_message(SnapshotLoaded(await self.source.load(self.filter_text)))
                pause = self.intervals.poll
            except Refused as refused:
                self.post_message(LoadingFailed(refused))
                pause = self.intervals.retry
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._stale.wait()
            await asyncio.sleep(self.intervals.debounce)

    @work(group="changes")
    async def _watch_changes(self) -> None:
        """Reload on every change; without a change stream, polling continues."""
        while True:
            with suppress(Refused):
                async with aclosing(self.source.changes()) as changes:
                    async for _ in changes:
                        self._stale.set()
            # The next load shows whether this is an outage.
            self._stale.set()
            await asyncio.sleep(self.intervals.retry)

    def now(self) -> datetime:
        """Return the present time."""
        return self._now()

    @property
    def retry_interval(self) -> float:
        """Return how long to wait after a failure, in seconds."""
        return self.intervals.retry

    def request_reload(self, filter_text: str | None = None) -> None:
        """Reload soon, with a new filter if one is given."""
        if filter_text is not None:
            self.filter_text = filter_text
        self._stale.set()

    @on(SnapshotLoaded)
    def _store_snapshot(self, message: SnapshotLoaded) -> None:
        self.snapshot, self.loaded_at, self.outage = message.snapshot, self.now(), None
        self.redraw_screens()

    @on(LoadingFailed)
    def _store_outage(self, message: LoadingFailed) -> None:
        self.outage = self.describe_refusal(message.refusal)
        self.redraw_screens()

    def describe_refusal(self, refusal: Refused) -> str:
        """Return the message of a refusal with the next step."""
        message = refusal.detail
        if isinstance(refusal, Invalid) and refusal.faults:
            message = "; ".join(map(str, refusal.faults))
        step = self._hint(refusal)
        return f"{message}; {step}" if step else message

    def redraw_screens(self) -> None:
        """Redraw all screens with the present state and time."""
        for screen in self.screen_stack:
            if isinstance(screen, LiveScreen) and screen.is_built:
                screen.redraw()

    def show_message(self, text: str, *, is_error: bool = False) -> None:
        """Show a message on all screens."""
        for screen in self.screen_stack:
            if isinstance(screen, LiveScreen):
                screen.show_message(text, is_error=is_error)

    def open_job(self, job_id: str) -> None:
        """Open the screen of a job."""
        self.push_screen(JobScreen(job_id))

    def start_action(self, offered: OfferedAction) -> None:
        """Perform an action, after its prompt if it has one.

        The prompt opens at once: the next key is already its answer.
        """
        action, target = offered.action, offered.target
        question = action.question.replace("{}", target.name)
        match action.prompt:
            case Prompt.NONE:
                self._perform(offered, ActionInput(commit=target.commit))
            case Prompt.CONFIRM:
                at = f" (at {target.commit[:10]})" if target.commit and action.key == "s" else ""
                self.push_screen(
                    ConfirmPrompt(question + at),
                    lambda yes: self._prompt_answered(offered, "" if yes else None),
                )
            case Prompt.TEXT | Prompt.OPTIONAL_TEXT:
                prompt = TextPrompt(question, required=action.prompt is Prompt.TEXT)
                self.push_screen(prompt, lambda answer: self._prompt_answered(offered, answer))

    def _prompt_answered(self, offered: OfferedAction, answer: str | None) -> None:
        if answer is None:
            self.show_message("Nothing was done.")
        else:
            self._perform(offered, ActionInput(reason=answer, commit=offered.target.commit))

    @work(group="actions")
    async def _perform(self, offered: OfferedAction, given: ActionInput) -> None:
        self.show_message(f"{offered.action.label}: {offered.target.name} …")
        try:
            result = await self._send_action(offered, given)
        except Refused as refused:
            self.show_message(self.describe_refusal(refused), is_error=True)
        else:
            await self._reload_now()
            self.show_message(result)
        self.request_reload()

    async def _reload_now(self) -> None:
        """Show the new state before the message: the next key may refer to it."""
        with suppress(Refused):
            self._store_snapshot(SnapshotLoaded(await self.source.load(self.filter_text)))
            for screen in self.screen_stack:
                if isinstance(screen, JobScreen):
                    await screen.reload_now()

    async def _send_action(self, offered: OfferedAction, given: ActionInput) -> str:
        source, target = self.source, offered.target
        match offered.action.name:
            case "drain" | "undrain" as name:
                return await source.drain(target.id, draining=name == "drain")
            case "pause" | "resume" as name:
                return await source.pause(target.id, paused=name == "pause", reason=given.reason)
            case "halt" | "end-halt" as name:
                return await source.halt(
                    target.id or None, halted=name == "halt", reason=given.reason
                )
            case name:
                return await source.act(target.id, name, given)
