"""The help screen: all keys."""

from collections.abc import Iterator
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Static

from gigafactory.tui.model.actions import DRAIN, HALT, JOB_ACTIONS, PAUSE
from gigafactory.tui.widgets.text import DIM, TextCell, render_cells, styled

NAVIGATION = (
    ("1 … 5, Tab", "switch views"),
    ("j k ↑ ↓", "move up and down"),
    ("h l ← →", "next column or view"),
    ("g G, PgUp PgDn", "first, last, page"),
    ("Enter", "open a job and its log"),
    ("Esc", "go back; clear a filter"),
    ("/", "filter by text"),
    ("f", "in a log: follow the end"),
    ("q", "quit"),
)
SOURCE_ACTIONS = ((DRAIN, "drain or undrain a factory"), (PAUSE, "pause or resume a product"))
WIDTH = 70


class HelpScreen(ModalScreen[None]):
    """The keys and their actions."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,question_mark,q,enter,space", "dismiss", show=False)
    ]

    def __init__(self, supported_actions: frozenset[str]) -> None:
        super().__init__()
        self._supported_actions = supported_actions

    def compose(self) -> ComposeResult:
        with Vertical(id="help"):
            yield Static(Text("\n").join(self._lines()))

    def _lines(self) -> Iterator[Text]:
        actions = [(action.key, action.name.replace("-", " ")) for action in JOB_ACTIONS]
        actions += [
            (action.key, text)
            for action, text in SOURCE_ACTIONS
            if action.name in self._supported_actions
        ]
        if "halt" in self._supported_actions:
            actions.append((HALT.key, "halt or resume all"))
        yield styled("Keys", "bold")
        for number in range(max(len(actions), len(NAVIGATION))):
            left = NAVIGATION[number] if number < len(NAVIGATION) else ("", "")
            right = actions[number] if number < len(actions) else ("", "")
            yield render_cells(
                WIDTH,
                (
                    TextCell(left[0], 14, "bold cyan"),
                    TextCell(left[1], 25),
                    TextCell(right[0], 2, "bold cyan"),
                    TextCell(right[1], None),
                ),
            )
        yield Text()
        yield styled("Only actions that the job's stage allows are offered. Esc closes.", DIM)
