"""Prompts before an action, at the bottom so that the target stays visible."""

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from gigafactory.tui.widgets.text import AMBER, RED, one_line, styled


class ConfirmPrompt(ModalScreen[bool]):
    """A yes-or-no question."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "dismiss(True)", show=False),
        Binding("n,escape,q", "dismiss(False)", show=False),
    ]

    def __init__(self, question: str) -> None:
        super().__init__()
        self.question = one_line(question)

    def compose(self) -> ComposeResult:
        text = styled(self.question, f"bold {AMBER}")
        text.append("  y yes   n no", "not bold default")
        with Vertical(id="prompt"):
            yield Static(text, id="question")


class TextPrompt(ModalScreen[str | None]):
    """A line of text; None if the user cancels."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", show=False)]

    def __init__(self, question: str, *, required: bool, initial: str = "") -> None:
        super().__init__()
        self.question = one_line(question)
        self.required = required
        self.initial = initial

    def compose(self) -> ComposeResult:
        with Vertical(id="prompt"):
            text = styled(self.question, f"bold {AMBER}")
            text.append("  ⏎ confirm   Esc cancel", "not bold default")
            yield Static(text, id="question")
            yield Input(self.initial, id="answer", compact=True, select_on_focus=False)

    def on_mount(self) -> None:
        self.query_one(Input).focus()

    @on(Input.Submitted)
    def _submit(self, event: Input.Submitted) -> None:
        answer = event.value.strip()
        if answer or not self.required:
            self.dismiss(answer)
        else:
            text = styled(f"{self.question}  A text is required.", f"bold {RED}")
            self.query_one("#question", Static).update(text)
