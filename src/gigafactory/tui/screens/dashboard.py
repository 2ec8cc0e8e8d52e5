"""The first screen: five views of the plane, of which one is shown."""

from collections.abc import Callable, Sequence
from typing import ClassVar, NamedTuple

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.events import Resize
from textual.widgets import Static

from gigafactory.domain.job.job import FINAL, Stage
from gigafactory.tui.model.actions import Choice, choices, job_of
from gigafactory.tui.model.source import Snapshot
from gigafactory.tui.screens.base import Shown
from gigafactory.tui.views import Scene
from gigafactory.tui.views.attention import attention, is_fault
from gigafactory.tui.views.board import ORDER, board, columns
from gigafactory.tui.views.budgets import budgets
from gigafactory.tui.views.detail import about
from gigafactory.tui.views.factories import factories
from gigafactory.tui.views.jobs import WIDE
from gigafactory.tui.views.queue import queue
from gigafactory.tui.widgets.columns import Columns
from gigafactory.tui.widgets.prompts import Words
from gigafactory.tui.widgets.rows import Row, Rows
from gigafactory.tui.widgets.text import AMBER, DIM, RED, Cell, clock, line, painted


class View(NamedTuple):
    """One of the five."""

    title: str
    rows: Callable[[Scene], list[Row]]
    count: Callable[[Snapshot], int]


def _unfinished(seen: Snapshot) -> int:
    return sum(count for stage, count in seen.counts.items() if stage not in FINAL)


def _waiting(seen: Snapshot) -> int:
    return seen.counts.get(Stage.QUEUED, 0) + seen.counts.get(Stage.BLOCKED, 0)


VIEWS = (
    View("Board", board, _unfinished),
    View("Attention", attention, lambda seen: len(seen.matters)),
    View("Factories", factories, lambda seen: len(seen.factories)),
    View("Queue", queue, _waiting),
    View("Budgets", budgets, lambda seen: len(seen.budgets)),
)
BOARD, ATTENTION = 0, 1


class Dashboard(Shown):
    """The plane at a glance."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(str(n + 1), f"view({n})", show=False) for n in range(len(VIEWS))),
        Binding("tab", "turn(1)", show=False),
        Binding("shift+tab", "turn(-1)", show=False),
        Binding("right,l", "aside(1)", show=False),
        Binding("left,h", "aside(-1)", show=False),
        Binding("escape", "clear", show=False),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.view = 0
        self._chosen: dict[int, str] = {}

    def compose(self) -> ComposeResult:
        """A line of what this is, the views, and below them what can be done."""
        yield Static(id="top")
        yield Static(id="tabs")
        yield Static(id="outage")
        yield Rows(id="rows")
        yield Columns(ORDER, id="columns")
        yield Static(id="about")
        yield Static(id="said")
        yield Static(id="keys")

    def on_mount(self) -> None:
        """Walk along the rows at once."""
        self.query_one("#columns").display = False
        self.query_one("#rows").focus()
        self.show_now()

    @property
    def rows(self) -> Rows | Columns:
        """The rows of the view that is shown: a list, or columns side by side."""
        beside = self.query_one(Columns)
        return beside if beside.display else self.query_one("#rows", Rows)

    def _scene(self) -> Scene:
        dash = self.dash
        # A column of scrollbar, and one of room on either side.
        return Scene(
            seen=dash.seen,
            hints=dash.plane.hints,
            now=dash.now(),
            width=max(40, self.size.width - 3),
            text=dash.words_wanted,
        )

    def show_now(self, *, anew: bool = False) -> None:
        """Show the view as things stand now."""
        scene = self._scene()
        roomy = self.view == BOARD and self.size.width >= WIDE
        beside = columns(scene) if roomy else {}
        before = self.rows.chosen
        turned = self._lay(beside=bool(beside))
        if beside:
            self.query_one(Columns).show(beside, anew=anew)
        else:
            self.query_one("#rows", Rows).show(self._listed(scene), anew=anew)
        if turned and not anew and before is not None and before.key is not None:
            self.rows.choose(before.key)
        self.query_one("#top", Static).update(self._top(scene))
        self.query_one("#tabs", Static).update(self._tabs(scene))
        self._show_outage()
        self._show_chosen()

    def _listed(self, scene: Scene) -> list[Row]:
        if self.dash.seen_at is not None:
            return VIEWS[self.view].rows(scene)
        return [] if self.dash.away else [Row(painted("  Looking …", DIM))]

    def _lay(self, *, beside: bool) -> bool:
        """Lay the rows out as columns or as a list; whether that is another way than before."""
        board, rows = self.query_one(Columns), self.query_one("#rows", Rows)
        if board.display is beside:
            return False
        board.display, rows.display = beside, not beside
        if not beside:
            self.set_focus(rows)
        return True

    def _show_chosen(self) -> None:
        row = self.rows.chosen
        self.query_one("#about", Static).update(about(self._scene(), row.about if row else None))
        opens = [("⏎", "open")] if row and job_of(row.about) else []
        self.show_keys([*opens, ("/", "find")])

    def _show_outage(self) -> None:
        dash, outage = self.dash, self.query_one("#outage", Static)
        outage.set_class(dash.away is not None, "away")
        if dash.away is not None:
            old = f" Below is what was so at {clock(dash.seen_at)}." if dash.seen_at else ""
            outage.update(Text(f"No answer: {dash.away}.{old} Trying again …"))

    def _top(self, scene: Scene) -> Text:
        dash = self.dash
        sign, colour = ("● live", "green") if dash.seen_at else ("…", DIM)
        if dash.away is not None:
            sign, colour = "✗ no answer", RED
        elif any(each.kind == "halted" for each in scene.seen.matters):
            sign, colour = "‖ halted", AMBER
        find = f"/ {dash.words_wanted}" if dash.words_wanted else ""
        return line(
            self.size.width - 2,
            (
                Cell("aq dash", 7, "bold"),
                Cell(dash.plane.name, None, DIM),
                Cell(find, len(find) and 24, AMBER),
                Cell(sign, 11, f"bold {colour}", right=True),
            ),
            gap=2,
        )

    def _tabs(self, scene: Scene) -> Text:
        text = Text(no_wrap=True)
        for number, view in enumerate(VIEWS):
            count = view.count(scene.seen)
            style = "bold reverse" if number == self.view else ""
            text.append(f" {number + 1} {view.title} ", style)
            colour = _urgency(scene.seen) if number == ATTENTION and count else DIM
            text.append(f"{count}" if count else " ", f"bold {colour}" if count else "")
            text.append("  ")
        return text

    def choices(self) -> Sequence[Choice]:
        """See Shown."""
        row = self.rows.chosen
        return choices(row.about if row else None, self.dash.seen, self.dash.plane.offers)

    def action_view(self, number: int) -> None:
        """Go to a view, to the row that was chosen there."""
        if self.rows.chosen is not None and self.rows.chosen.key is not None:
            self._chosen[self.view] = self.rows.chosen.key
        self.view = number
        self.show_now(anew=True)
        if number in self._chosen:
            self.rows.choose(self._chosen[number])

    def action_turn(self, by: int) -> None:
        """Go to the next view, or the one before."""
        self.action_view((self.view + by) % len(VIEWS))

    def action_aside(self, by: int) -> None:
        """Go to the next column, or the one before; where there is but a list, to the next view."""
        if isinstance(self.rows, Columns):
            self.rows.aside(by)
        else:
            self.action_turn(by)

    def action_find(self) -> None:
        """Show only what has some words."""
        given = self.dash.words_wanted
        asked = Words("Show only what has the words:", needed=False, given=given)
        self.app.push_screen(asked, self._find)

    def action_clear(self) -> None:
        """Show everything again."""
        if self.dash.words_wanted:
            self._find("")

    def _find(self, words: str | None) -> None:
        if words is not None:
            self.dash.look_again(words)
            self.show_now()

    @on(Rows.Moved)
    def moved(self) -> None:
        """Say more of the row that is chosen now."""
        self._show_chosen()

    @on(Rows.Opened)
    def opened(self) -> None:
        """Open the job of the row."""
        row = self.rows.chosen
        job_id = job_of(row.about) if row else None
        if job_id is not None:
            self.dash.open_job(job_id)

    def on_resize(self, _event: Resize) -> None:
        """Fit into the new size."""
        if self.is_built:
            self.show_now()


def _urgency(seen: Snapshot) -> str:
    return RED if all(map(is_fault, seen.matters)) else AMBER
