"""The main screen: five views, one at a time."""

from collections.abc import Callable, Sequence
from typing import ClassVar, NamedTuple

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.events import Resize
from textual.widgets import Static

from gigafactory.domain.job.job import FINAL, Stage
from gigafactory.tui.model.actions import OfferedAction, actions_on, job_id_of
from gigafactory.tui.model.source import DashboardSnapshot
from gigafactory.tui.screens.base import LiveScreen
from gigafactory.tui.views import ViewContext
from gigafactory.tui.views.attention import attention_rows, is_problem
from gigafactory.tui.views.board import ORDER, board_columns, board_rows
from gigafactory.tui.views.budgets import budget_rows
from gigafactory.tui.views.detail import describe_subject
from gigafactory.tui.views.factories import factory_rows
from gigafactory.tui.views.jobs import WIDE
from gigafactory.tui.views.queue import queue_rows
from gigafactory.tui.widgets.columns import BoardColumns
from gigafactory.tui.widgets.prompts import TextPrompt
from gigafactory.tui.widgets.rows import Row, RowList
from gigafactory.tui.widgets.text import (
    AMBER,
    DIM,
    RED,
    TextCell,
    format_clock_time,
    render_cells,
    styled,
)


class ViewTab(NamedTuple):
    """A view with its tab: title, rows and count."""

    title: str
    rows: Callable[[ViewContext], list[Row]]
    count: Callable[[DashboardSnapshot], int]


def _unfinished(snapshot: DashboardSnapshot) -> int:
    return sum(count for stage, count in snapshot.counts.items() if stage not in FINAL)


def _waiting(snapshot: DashboardSnapshot) -> int:
    return snapshot.counts.get(Stage.QUEUED, 0) + snapshot.counts.get(Stage.BLOCKED, 0)


VIEWS = (
    ViewTab("Board", board_rows, _unfinished),
    ViewTab("Attention", attention_rows, lambda snapshot: len(snapshot.attention)),
    ViewTab("Factories", factory_rows, lambda snapshot: len(snapshot.factories)),
    ViewTab("Queue", queue_rows, _waiting),
    ViewTab("Budgets", budget_rows, lambda snapshot: len(snapshot.budgets)),
)
BOARD, ATTENTION = 0, 1


class DashboardScreen(LiveScreen):
    """The fleet or folder at a glance."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(str(n + 1), f"view({n})", show=False) for n in range(len(VIEWS))),
        Binding("tab", "next_view(1)", show=False),
        Binding("shift+tab", "next_view(-1)", show=False),
        Binding("right,l", "next_column(1)", show=False),
        Binding("left,h", "next_column(-1)", show=False),
        Binding("escape", "clear_filter", show=False),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.view = 0
        self._selected_keys: dict[int, str] = {}

    def compose(self) -> ComposeResult:
        yield Static(id="top")
        yield Static(id="tabs")
        yield Static(id="outage")
        yield RowList(id="rows")
        yield BoardColumns(ORDER, id="columns")
        yield Static(id="selection")
        yield Static(id="message")
        yield Static(id="keys")

    def on_mount(self) -> None:
        self.query_one("#columns").display = False
        self.query_one("#rows").focus()
        self.redraw()

    @property
    def rows(self) -> RowList | BoardColumns:
        """Return the visible rows: a list, or columns side by side."""
        columns = self.query_one(BoardColumns)
        return columns if columns.display else self.query_one("#rows", RowList)

    def _view_context(self) -> ViewContext:
        host = self.host
        # One column for the scrollbar and one of margin on either side.
        return ViewContext(
            snapshot=host.snapshot,
            hints=host.source.hints,
            now=host.now(),
            width=max(40, self.size.width - 3),
            filter_text=host.filter_text,
        )

    def redraw(self, *, reset: bool = False) -> None:
        """Show the view in its present state; `reset` also forgets the selection."""
        context = self._view_context()
        is_wide = self.view == BOARD and self.size.width >= WIDE
        columns = board_columns(context) if is_wide else {}
        before = self.rows.selected
        layout_changed = self._set_layout(as_columns=bool(columns))
        if columns:
            self.query_one(BoardColumns).set_rows(columns, reset=reset)
        else:
            self.query_one("#rows", RowList).set_rows(self._list_rows(context), reset=reset)
        if layout_changed and not reset and before is not None and before.key is not None:
            self.rows.select(before.key)
        self.query_one("#top", Static).update(self._top(context))
        self.query_one("#tabs", Static).update(self._tabs(context))
        self._show_outage()
        self._show_selected()

    def _list_rows(self, context: ViewContext) -> list[Row]:
        if self.host.loaded_at is not None:
            return VIEWS[self.view].rows(context)
        return [] if self.host.outage else [Row(styled("  Loading …", DIM))]

    def _set_layout(self, *, as_columns: bool) -> bool:
        """Show columns or a list; return whether the layout changed."""
        board, rows = self.query_one(BoardColumns), self.query_one("#rows", RowList)
        if board.display is as_columns:
            return False
        board.display, rows.display = as_columns, not as_columns
        if not as_columns:
            self.set_focus(rows)
        return True

    def _show_selected(self) -> None:
        row = self.rows.selected
        self.query_one("#selection", Static).update(
            describe_subject(self._view_context(), row.subject if row else None)
        )
        opens = [("⏎", "open")] if row and job_id_of(row.subject) else []
        self.show_keys([*opens, ("/", "filter")])

    def _show_outage(self) -> None:
        host, outage = self.host, self.query_one("#outage", Static)
        outage.set_class(host.outage is not None, "active")
        if host.outage is not None:
            at = host.loaded_at
            old = f" Showing the state of {format_clock_time(at)}." if at else ""
            outage.update(Text(f"No answer: {host.outage}.{old} Reconnecting …"))

    def _top(self, context: ViewContext) -> Text:
        host = self.host
        sign, colour = ("● live", "green") if host.loaded_at else ("…", DIM)
        if host.outage is not None:
            sign, colour = "✗ no answer", RED
        elif any(each.kind == "halted" for each in context.snapshot.attention):
            sign, colour = "‖ halted", AMBER
        filtered = f"/ {host.filter_text}" if host.filter_text else ""
        return render_cells(
            self.size.width - 2,
            (
                TextCell("aq dash", 7, "bold"),
                TextCell(host.source.name, None, DIM),
                TextCell(filtered, len(filtered) and 24, AMBER),
                TextCell(sign, 11, f"bold {colour}", right=True),
            ),
            gap=2,
        )

    def _tabs(self, context: ViewContext) -> Text:
        text = Text(no_wrap=True)
        for number, view in enumerate(VIEWS):
            count = view.count(context.snapshot)
            style = "bold reverse" if number == self.view else ""
            text.append(f" {number + 1} {view.title} ", style)
            colour = _urgency(context.snapshot) if number == ATTENTION and count else DIM
            text.append(f"{count}" if count else " ", f"bold {colour}" if count else "")
            text.append("  ")
        return text

    def available_actions(self) -> Sequence[OfferedAction]:
        row = self.rows.selected
        return actions_on(
            row.subject if row else None, self.host.snapshot, self.host.source.supported_actions
        )

    def action_view(self, number: int) -> None:
        """Switch to a view and its last selected row."""
        if self.rows.selected is not None and self.rows.selected.key is not None:
            self._selected_keys[self.view] = self.rows.selected.key
        self.view = number
        self.redraw(reset=True)
        if number in self._selected_keys:
            self.rows.select(self._selected_keys[number])

    def action_next_view(self, by: int) -> None:
        """Switch to the next or previous view."""
        self.action_view((self.view + by) % len(VIEWS))

    def action_next_column(self, by: int) -> None:
        """Go to the next or previous column; without columns, to the next or previous view."""
        if isinstance(self.rows, BoardColumns):
            self.rows.move_column(by)
        else:
            self.action_next_view(by)

    def action_filter(self) -> None:
        """Ask for a filter text."""
        present = self.host.filter_text
        prompt = TextPrompt("Filter by text:", required=False, initial=present)
        self.app.push_screen(prompt, self._set_filter)

    def action_clear_filter(self) -> None:
        if self.host.filter_text:
            self._set_filter("")

    def _set_filter(self, text: str | None) -> None:
        if text is not None:
            self.host.request_reload(text)
            self.redraw()

    @on(RowList.SelectionChanged)
    def _selection_changed(self) -> None:
        self._show_selected()

    @on(RowList.OpenRequested)
    def _open_selected(self) -> None:
        row = self.rows.selected
        job_id = job_id_of(row.subject) if row else None
        if job_id is not None:
            self.host.open_job(job_id)

    def on_resize(self, _event: Resize) -> None:
        if self.is_built:
            self.redraw()


def _urgency(snapshot: DashboardSnapshot) -> str:
    return RED if all(map(is_problem, snapshot.attention)) else AMBER
