"""The dashboard: it looks whenever something has happened, and does what a person decides."""

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
from gigafactory.tui.model.actions import Asks, Choice
from gigafactory.tui.model.source import Plane, Snapshot, Wish
from gigafactory.tui.screens.base import Shown
from gigafactory.tui.screens.dashboard import Dashboard
from gigafactory.tui.screens.job import JobScreen
from gigafactory.tui.widgets.prompts import Sure, Words


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """How often is looked, in seconds."""

    pause: float = 0.3
    """What happens in so short a time is looked at together."""
    again: float = 5.0
    """What changes with time alone, as who is offline, shows after so long."""
    retry: float = 2.0
    """After a failure."""


USUAL = Pace()


class Seen(Message):
    """The plane was looked at."""

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__()
        self.snapshot = snapshot


class Away(Message):
    """The plane could not be looked at."""

    def __init__(self, refused: Refused) -> None:
        super().__init__()
        self.refused = refused


class Dash(App[None]):
    """One plane in a terminal."""

    CSS_PATH = "dash.tcss"
    ENABLE_COMMAND_PALETTE = False
    TITLE = "aq dash"

    def __init__(
        self,
        plane: Plane,
        *,
        hint: Callable[[Refused], str | None] = lambda _: None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        pace: Pace = USUAL,
    ) -> None:
        """Show this plane; `hint` says what to do about a refusal that does not say it itself."""
        super().__init__()
        self.plane = plane
        self.now = now
        self.pace = pace
        self.seen = Snapshot()
        self.seen_at: datetime | None = None
        self.away: str | None = None
        """Why the plane cannot be seen; None while it can."""
        self.words_wanted = ""
        """Only jobs with these words are looked for."""
        self._hint = hint
        self._stale = asyncio.Event()
        self._ticking: Timer | None = None

    def on_mount(self) -> None:
        """Begin to look."""
        # The terminal's own colours: every terminal has them, and whoever sits there chose them.
        self.theme = "ansi-dark"
        self.push_screen(Dashboard())
        self._keep_looking()
        self._listen()
        self._ticking = self.set_interval(1.0, self.show_again)

    async def on_unmount(self) -> None:
        """Let the plane go; nobody may ask it for more then."""
        self.workers.cancel_all()
        await self.plane.close()

    @work(group="looking")
    async def _keep_looking(self) -> None:
        while True:
            self._stale.clear()
            try:
                self.post_message(Seen(await self.plane.look(self.words_wanted)))
                pause = self.pace.again
            except Refused as refused:
                self.post_message(Away(refused))
                pause = self.pace.retry
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._stale.wait()
            await asyncio.sleep(self.pace.pause)

    @work(group="listening")
    async def _listen(self) -> None:
        """Look again at every word of the plane; while it cannot be heard, looking goes on."""
        while True:
            with suppress(Refused):
                async with aclosing(self.plane.changes()) as changes:
                    async for _ in changes:
                        self._stale.set()
            # Whether that is an outage, the next look tells.
            self._stale.set()
            await asyncio.sleep(self.pace.retry)

    def look_again(self, words: str | None = None) -> None:
        """Look at once; for jobs with these words, where some are given."""
        if words is not None:
            self.words_wanted = words
        self._stale.set()

    @on(Seen)
    def _seen(self, message: Seen) -> None:
        self.seen, self.seen_at, self.away = message.snapshot, self.now(), None
        self.show_again()

    @on(Away)
    def _away(self, message: Away) -> None:
        self.away = self.told(message.refused)
        self.show_again()

    def told(self, refused: Refused) -> str:
        """A refusal, and what to do about it."""
        said = refused.detail
        if isinstance(refused, Invalid) and refused.faults:
            said = "; ".join(map(str, refused.faults))
        step = self._hint(refused)
        return f"{said}; {step}" if step else said

    def show_again(self) -> None:
        """Have every screen show how things stand now."""
        for screen in self.screen_stack:
            if isinstance(screen, Shown) and screen.is_built:
                screen.show_now()

    def say(self, text: str, *, wrong: bool = False) -> None:
        """Say what came of something, wherever one is."""
        for screen in self.screen_stack:
            if isinstance(screen, Shown):
                screen.say(text, wrong=wrong)

    def open_job(self, job_id: str) -> None:
        """Show one job from near."""
        self.push_screen(JobScreen(job_id))

    def decide(self, choice: Choice) -> None:
        """Ask what has to be asked, at once, so that the next key is its answer; then do it."""
        deed, target = choice.deed, choice.target
        question = deed.question.replace("{}", target.name)
        match deed.asks:
            case Asks.NOTHING:
                self._carry_out(choice, Wish(commit=target.commit))
            case Asks.SURE:
                at = f" (at {target.commit[:10]})" if target.commit and deed.key == "s" else ""
                sure = Sure(question + at)
                self.push_screen(sure, lambda yes: self._answered(choice, "" if yes else None))
            case Asks.WORDS | Asks.MAYBE:
                words = Words(question, needed=deed.asks is Asks.WORDS)
                self.push_screen(words, lambda said: self._answered(choice, said))

    def _answered(self, choice: Choice, words: str | None) -> None:
        if words is None:
            self.say("Nothing was done.")
        else:
            self._carry_out(choice, Wish(reason=words, commit=choice.target.commit))

    @work(group="deciding")
    async def _carry_out(self, choice: Choice, wish: Wish) -> None:
        self.say(f"{choice.deed.label}: {choice.target.name} …")
        try:
            said = await self._do(choice, wish)
        except Refused as refused:
            self.say(self.told(refused), wrong=True)
        else:
            await self._renew()
            self.say(said)
        self.look_again()

    async def _renew(self) -> None:
        """Show what was done before it is told: the next key may be about it."""
        with suppress(Refused):
            self._seen(Seen(await self.plane.look(self.words_wanted)))
            for screen in self.screen_stack:
                if isinstance(screen, JobScreen):
                    await screen.renew()

    async def _do(self, choice: Choice, wish: Wish) -> str:
        plane, target = self.plane, choice.target
        match choice.deed.action:
            case "drain" | "undrain" as action:
                return await plane.drain(target.id, draining=action == "drain")
            case "pause" | "resume" as action:
                return await plane.pause(target.id, paused=action == "pause", reason=wish.reason)
            case "halt" | "lift" as action:
                return await plane.halt(
                    target.id or None, halted=action == "halt", reason=wish.reason
                )
            case action:
                return await plane.act(target.id, action, wish)
