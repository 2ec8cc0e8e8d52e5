"""What all screens of the dashboard share: the line that says what came of something, and keys."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, cast

from rich.cells import cell_len
from rich.text import Text
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widgets import Static

from gigafactory.tui.model.actions import KEYS, Choice, switch
from gigafactory.tui.screens.help import Help
from gigafactory.tui.widgets.text import DIM, RED, one_line, painted

if TYPE_CHECKING:
    from gigafactory.tui.app import Dash

LAST = (("?", "keys"), ("q", "quit"))


class Shown(Screen[None]):
    """A screen that shows the plane as it is, and lets a person decide."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(key, f"decide('{key}')", show=False) for key in KEYS),
        Binding("question_mark", "help", show=False),
        Binding("slash", "find", show=False),
        Binding("q", "app.quit", show=False),
    ]

    @property
    def dash(self) -> "Dash":
        """The dashboard that this is a screen of."""
        return cast("Dash", self.app)

    @property
    def is_built(self) -> bool:
        """Whether its parts are there: not before it is mounted, and not when all is over."""
        return self.is_running and bool(self.query("#keys"))

    def show_now(self) -> None:
        """Show how things stand now."""
        raise NotImplementedError

    def choices(self) -> Sequence[Choice]:
        """What can be done about what is chosen."""
        raise NotImplementedError

    def say(self, text: str, *, wrong: bool = False) -> None:
        """Say what came of something, at the bottom."""
        if self.is_built:
            said = painted(one_line(text), RED if wrong else "")
            self.query_one("#said", Static).update(said)

    def action_help(self) -> None:
        """Show all keys."""
        self.app.push_screen(Help(self.dash.plane.offers))

    def action_decide(self, key: str) -> None:
        """Do what a key stands for, if it can be done now."""
        here = list(self.choices())
        if key == "H" and "halt" in self.dash.plane.offers:
            here.append(switch(self.dash.seen, self._whole()))
        choice = next((each for each in here if each.deed.key == key), None)
        if choice is not None:
            self.dash.decide(choice)
        else:
            self.say(f"{key} does nothing here; ? shows what does", wrong=False)

    def _whole(self) -> str:
        return f"all of {self.dash.plane.name}"

    def show_keys(self, first: Sequence[tuple[str, str]]) -> None:
        """Name the keys that do something now, as far as there is room."""
        pairs = [*first, *((c.deed.key, c.deed.label) for c in self.choices())]
        room = self.size.width - 2 - sum(_width(pair) for pair in LAST)
        line = Text(no_wrap=True)
        for pair in pairs:
            if room < _width(pair):
                break
            room -= _width(pair)
            _append(line, pair)
        for pair in LAST:
            _append(line, pair)
        self.query_one("#keys", Static).update(line)


def _width(pair: tuple[str, str]) -> int:
    return cell_len(pair[0]) + 1 + cell_len(pair[1]) + 2


def _append(line: Text, pair: tuple[str, str]) -> None:
    line.append(pair[0], "bold").append(f" {pair[1]}  ", DIM)
