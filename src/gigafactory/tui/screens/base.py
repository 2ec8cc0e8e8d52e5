"""Base of the dashboard screens: message line, key line and actions."""

from collections.abc import Sequence
from datetime import datetime
from typing import ClassVar, Protocol, cast

from rich.cells import cell_len
from rich.text import Text
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widgets import Static

from gigafactory.domain.errors import Refused
from gigafactory.tui.model.actions import ACTION_KEYS, OfferedAction, halt_action
from gigafactory.tui.model.source import DashboardSnapshot, DashboardSource
from gigafactory.tui.screens.help import HelpScreen
from gigafactory.tui.widgets.text import DIM, RED, one_line, styled

ALWAYS_SHOWN = (("?", "keys"), ("q", "quit"))


class DashboardHost(Protocol):
    """The application as its screens see it."""

    source: DashboardSource
    snapshot: DashboardSnapshot
    loaded_at: datetime | None
    outage: str | None
    filter_text: str

    @property
    def retry_interval(self) -> float:
        """Return how long to wait after a failure, in seconds."""
        ...

    def now(self) -> datetime:
        """Return the present time."""
        ...

    def request_reload(self, filter_text: str | None = None) -> None:
        """Reload soon, with a new filter if one is given."""
        ...

    def describe_refusal(self, refusal: Refused) -> str:
        """Return the message of a refusal with the next step."""
        ...

    def open_job(self, job_id: str) -> None:
        """Open the screen of a job."""
        ...

    def start_action(self, offered: OfferedAction) -> None:
        """Perform an action, after its prompt if it has one."""
        ...


class LiveScreen(Screen[None]):
    """A screen that shows the present state and offers actions on it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(key, f"act('{key}')", show=False) for key in ACTION_KEYS),
        Binding("question_mark", "help", show=False),
        Binding("slash", "filter", show=False),
        Binding("q", "app.quit", show=False),
    ]

    @property
    def host(self) -> DashboardHost:
        """Return the application."""
        return cast("DashboardHost", self.app)

    @property
    def is_built(self) -> bool:
        """Return whether its widgets exist: False before mounting and while closing."""
        return self.is_running and bool(self.query("#keys"))

    def redraw(self) -> None:
        """Show the present state."""
        raise NotImplementedError

    def available_actions(self) -> Sequence[OfferedAction]:
        """Return the actions on the selection."""
        raise NotImplementedError

    def show_message(self, text: str, *, is_error: bool = False) -> None:
        """Show a message in the line above the keys."""
        if self.is_built:
            message = styled(one_line(text), RED if is_error else "")
            self.query_one("#message", Static).update(message)

    def action_help(self) -> None:
        self.app.push_screen(HelpScreen(self.host.source.supported_actions))

    def action_act(self, key: str) -> None:
        """Start the action of a key, if it is available."""
        available = list(self.available_actions())
        if key == "H" and "halt" in self.host.source.supported_actions:
            available.append(halt_action(self.host.snapshot, self._source_label()))
        offered = next((each for each in available if each.action.key == key), None)
        if offered is not None:
            self.host.start_action(offered)
        else:
            self.show_message(f"{key} does nothing here; ? lists the keys")

    def _source_label(self) -> str:
        return f"all of {self.host.source.name}"

    def show_keys(self, first: Sequence[tuple[str, str]]) -> None:
        """List the available keys, as many as fit."""
        pairs = [
            *first,
            *((each.action.key, each.action.label) for each in self.available_actions()),
        ]
        room = self.size.width - 2 - sum(_width(pair) for pair in ALWAYS_SHOWN)
        line = Text(no_wrap=True)
        for pair in pairs:
            if room < _width(pair):
                break
            room -= _width(pair)
            _append(line, pair)
        for pair in ALWAYS_SHOWN:
            _append(line, pair)
        self.query_one("#keys", Static).update(line)


def _width(pair: tuple[str, str]) -> int:
    return cell_len(pair[0]) + 1 + cell_len(pair[1]) + 2


def _append(line: Text, pair: tuple[str, str]) -> None:
    line.append(pair[0], "bold").append(f" {pair[1]}  ", DIM)
