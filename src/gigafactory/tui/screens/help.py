"""All keys, on one screen."""

from collections.abc import Iterator
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Static

from gigafactory.tui.model.actions import DRAIN, HALT, ON_JOBS, PAUSE
from gigafactory.tui.widgets.text import DIM, Cell, line, painted

MOVING = (
    ("1 … 5, Tab", "go to a view"),
    ("j k ↑ ↓", "go up and down"),
    ("h l ← →", "the next column, or view"),
    ("g G, PgUp PgDn", "the ends, a screen"),
    ("Enter", "open a job, with its log"),
    ("Esc", "go back; end a search"),
    ("/", "find what has some words"),
    ("f", "in a log: follow its end"),
    ("q", "quit"),
)
OF_FLEETS = ((DRAIN, "drain a machine, or undrain"), (PAUSE, "pause a product, or resume"))
WIDTH = 70


class Help(ModalScreen[None]):
    """What each key does; any of the usual ones closes it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,question_mark,q,enter,space", "dismiss", show=False)
    ]

    def __init__(self, offers: frozenset[str]) -> None:
        super().__init__()
        self._offers = offers

    def compose(self) -> ComposeResult:
        """Two columns of keys."""
        with Vertical(id="help"):
            yield Static(Text("\n").join(self._lines()))

    def _lines(self) -> Iterator[Text]:
        deeds = [(deed.key, deed.action.replace("-", " ")) for deed in ON_JOBS]
        deeds += [(deed.key, told) for deed, told in OF_FLEETS if deed.action in self._offers]
        if "halt" in self._offers:
            deeds.append((HALT.key, "halt everything, or lift"))
        yield painted("Keys", "bold")
        for number in range(max(len(deeds), len(MOVING))):
            left = MOVING[number] if number < len(MOVING) else ("", "")
            right = deeds[number] if number < len(deeds) else ("", "")
            yield line(
                WIDTH,
                (
                    Cell(left[0], 14, "bold cyan"),
                    Cell(left[1], 25),
                    Cell(right[0], 2, "bold cyan"),
                    Cell(right[1], None),
                ),
            )
        yield Text()
        yield painted("Only what a job's stage allows is offered. Esc closes this.", DIM)
