"""`aq dash` as a real program in a tmux window of 80 by 24."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.services.aq import AQ, Served, Shell, environment, serving
from tests.services.debian import Unavailable
from tests.services.tmux import Window, a_window, program
from tests.support.folder_queue import FolderHarness

JOB = "---\nname: fix-login\n---\n# Fix the login\n"


@pytest.fixture(scope="module", autouse=True)
def _tmux() -> None:
    try:
        program()
    except Unavailable as missing:
        pytest.skip(f"there is no tmux here: {missing}")


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


@pytest.fixture
def served(shell: Shell) -> Iterator[Served]:
    with serving(shell) as coordinator:
        yield coordinator


def dash(shell: Shell, *flags: str) -> tuple[list[str], dict[str, str]]:
    return [AQ, "dash", *flags], environment(shell.folder, **shell.environ, LANG="C.UTF-8")


def ended(window: Window) -> None:
    """Assert that the dashboard has ended and the shell works."""
    window.has_the_shell()
    window.type("echo back-$((6*7))")
    window.sees("back-42")


def test_dashboard_shows_and_controls_a_fleet(shell: Shell, served: Served) -> None:
    (shell.folder / "fix-login.md").write_text(JOB)
    with a_window(shell.folder, *dash(shell)) as window:
        window.sees("● live", "No jobs yet.")
        assert shell.aq("submit", "fix-login.md").code == 0
        window.sees("INBOX 1", "fix-login", "Fix the login")
        window.press("t")
        window.sees("fix-login is at the front")
        window.press("Enter")
        window.sees("the job has not run yet", "no factory has enrolled yet")
        window.press("c")
        window.sees("Cancel fix-login?")
        window.press("y")
        window.sees("cancel: fix-login is cancelled now")
        window.press("r")
        window.sees("requeue: fix-login is queued now")
        window.press("Escape")
        window.sees("1 Board")
        window.press("H")
        window.sees("Reason:")
        window.type("bad release")
        window.sees("the whole fleet is halted", "‖ halted")
        window.press("2")
        window.sees("everything is halted", "bad release")
        window.press("H", "y")
        window.sees("the whole fleet continues")
        window.resize(40, 12)
        window.sees("q quit")
        window.resize(160, 40)
        window.press("1")
        window.sees("medium")
        served.process.terminate()
        window.sees("✗ no answer", "cannot reach", "start a coordinator with `aq up`", "fix-login")
        window.press("q")
        ended(window)


def test_dashboard_shows_and_controls_a_folder(place: FolderHarness) -> None:
    place.drop("greet", "# Greet\necho hello")
    shell = place.shell
    with a_window(shell.folder, *dash(shell)) as window:
        window.sees("● live", "No jobs yet.")
        window.press("2")
        window.sees("1 new in the inbox")
        assert shell.aq("run", "--once").code == 0
        window.press("1")
        window.sees("REVIEW 1", "greet")
        window.press("Enter")
        window.sees("hello", "it waits for a review")
        window.press("a")
        window.sees("approve: greet is testing now")
        window.press("s", "y")
        window.sees("ship: greet is shipped now")
        window.press("q")
        ended(window)
    assert place.columns_of("greet") == ["shipped"]


def test_folder_is_shown_despite_a_fleet_when_configured(
    place: FolderHarness, served: Served
) -> None:
    place.drop("greet", "# Greet\necho hello")
    result, environ = dash(place.shell)
    there = {"AQ_FLEET_API": served.url, "AQ_FLEET_TOKEN": served.token, "AQ_FLEET_DASH": "0"}
    with a_window(place.shell.folder, result, environ | there) as window:
        window.sees("● live", "No jobs yet.")
        window.press("2")
        window.sees("1 new in the inbox")


def test_fleet_is_shown_from_a_folder_when_configured(place: FolderHarness) -> None:
    place.drop("greet", "# Greet\necho hello")
    result, environ = dash(place.shell)
    unreachable = {"AQ_PORT": "1", "AQ_FLEET_DASH": "1"}
    with a_window(place.shell.folder, result, environ | unreachable) as window:
        window.sees("no answer", "cannot reach http://127.0.0.1:1")


@pytest.fixture
def place(tmp_path: Path) -> FolderHarness:
    return FolderHarness(tmp_path)


def test_dash_without_a_terminal_suggests_other_commands(shell: Shell) -> None:
    ran = shell.aq("dash")
    assert ran.code == 5
    assert "needs a terminal; `aq jobs`, `aq attention`" in ran.err


def test_missing_dash_extra_names_what_to_install(shell: Shell) -> None:
    blocked = (
        "import sys; sys.modules['textual'] = None; sys.argv[1:] = ['dash'];"
        " sys.stdin.isatty = sys.stdout.isatty = lambda: True;"
        " from gigafactory.cli.main import main; sys.exit(main())"
    )
    ran = subprocess.run(
        [sys.executable, "-c", blocked],
        env=environment(shell.folder),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, "pip install 'gigafactory[dash]'" in ran.stderr) == (5, True)
