"""Questions before something is done: at the bottom, so that what they are about stays in sight."""

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from gigafactory.tui.widgets.text import AMBER, RED, one_line, painted


class Sure(ModalScreen[bool]):
    """Yes or no."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "dismiss(True)", show=False),
        Binding("n,escape,q", "dismiss(False)", show=False),
    ]

    def __init__(self, question: str) -> None:
        super().__init__()
        self.question = one_line(question)

    def compose(self) -> ComposeResult:
        """The question."""
        text = painted(self.question, f"bold {AMBER}")
        text.append("  y yes   n no", "not bold default")
        with Vertical(id="asking"):
            yield Static(text, id="question")


class Words(ModalScreen[str | None]):
    """A line of words; None when nothing is to be done after all."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", show=False)]

    def __init__(self, question: str, *, needed: bool, given: str = "") -> None:
        super().__init__()
        self.question = one_line(question)
        self.needed = needed
        self.given = given

    def compose(self) -> ComposeResult:
        """The question, and a line to answer in."""
        with Vertical(id="asking"):
            text = painted(self.question, f"bold {AMBER}")
            text.append("  ⏎ do it   Esc leave it", "not bold default")
            yield Static(text, id="question")
            yield Input(self.given, id="words", compact=True, select_on_focus=False)

    def on_mount(self) -> None:
        """Type at once."""
        self.query_one(Input).focus()

    @on(Input.Submitted)
    def answered(self, event: Input.Submitted) -> None:
        """Take the words, unless there are none where some are needed."""
        words = event.value.strip()
        if words or not self.needed:
            self.dismiss(words)
        else:
            text = painted(f"{self.question}  It needs a word.", f"bold {RED}")
            self.query_one("#question", Static).update(text)
