"""`aq` without a coordinator: checks, settings, help and shell completion."""

from pathlib import Path
from typing import Any

import pytest

from tests.services.aq import Shell

JOB = "---\nname: fix-login\nengine: claude\n---\n# Fix the login\n"
BROKEN = "---\nname: fix-login\nprofle: x\ntimeout: 3x\n---\n# Fix the login\n"


@pytest.fixture
def alone(tmp_path: Path) -> Shell:
    """A terminal on a machine without a coordinator."""
    return Shell(tmp_path, {"AQ_FLEET_API": "http://127.0.0.1:1"})


def written(shell: Shell, text: str = JOB, name: str = "fix-login.md") -> str:
    (shell.folder / name).write_text(text)
    return name


def test_check_command_validates_files_without_a_coordinator(alone: Shell) -> None:
    ran = alone.aq("check", written(alone), written(alone, BROKEN, "broken.md"), "missing.md")
    assert ran.code == 1
    assert "# fix-login.md\n---\nname: fix-login\ntitle: Fix the login\n" in ran.out
    assert "timeout: 2h" in ran.out
    assert [line.partition(": ")[0] for line in ran.err.splitlines()] == [
        "broken.md:3",
        "broken.md:4",
        "missing.md",
    ]


def test_check_command_resolves_the_profile(alone: Shell) -> None:
    file = written(alone, "---\nprofile: qa\n---\n# Test it\n")
    data: Any = alone.aq("check", "--json", file).json()
    assert data["files"][0]["manifest"]["profile"] == "qa@1"
    unknown = alone.aq("check", written(alone, "---\nprofile: ours\n---\nGo\n"))
    assert unknown.code == 0
    assert "is not built in" in unknown.err


def test_config_command_shows_the_origin_of_each_setting(alone: Shell) -> None:
    (alone.folder / "aq.toml").write_text("[server]\nport = 9000\n")
    data: Any = alone.aq("config", "--json", AQ_FLEET_TOKEN="gfo_secret").json()
    assert data["server.port"] == {"value": 9000, "origin": str(alone.folder / "aq.toml")}
    assert data["client.url"]["origin"] == "environment AQ_FLEET_API"
    assert data["client.token"]["value"] == "***"


def test_unknown_setting_stops_every_command_and_is_named(alone: Shell) -> None:
    (alone.folder / "aq.toml").write_text("[server]\nprot = 9000\n")
    ran = alone.aq("jobs")
    assert ran.code == 1
    assert "server.prot: unknown setting; did you mean server.port?" in ran.err


def test_mistyped_command_suggests_the_nearest_one(alone: Shell) -> None:
    ran = alone.aq("job")
    assert ran.code == 2
    assert "did you mean `aq jobs`?" in ran.err


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_completion_command_prints_a_script_for_each_shell(alone: Shell, name: str) -> None:
    ran = alone.aq("completion", name)
    assert ran.code == 0
    assert "_AQ_COMPLETE" in ran.out


def test_completion_completes_command_names(alone: Shell) -> None:
    ran = alone.aq(_AQ_COMPLETE="bash_complete", COMP_WORDS="aq fac", COMP_CWORD="1")
    assert ran.out.strip().endswith("factory")


def test_help_page_fits_a_small_terminal(alone: Shell) -> None:
    lines = alone.aq("--help").out.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80


def test_file_that_the_system_refuses_is_named_without_a_traceback(alone: Shell) -> None:
    (alone.folder / "inbox").mkdir()
    (alone.folder / "building").touch()
    ran = alone.aq("status", "--folder", ".")
    assert ran.code == 1
    assert ran.err.startswith("aq: ")
    assert "building: " in ran.err
    assert "Traceback" not in ran.err
