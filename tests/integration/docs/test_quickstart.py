"""The quickstart: all its commands run in order and do what the page says."""

import re
import subprocess
from pathlib import Path

from tests.services.aq import AQ, Shell, environment

ROOT = Path(__file__).resolve().parents[3]
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.DOTALL | re.MULTILINE)
ACTOR = {
    f"GIT_{role}_{what}": value
    for role in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "somebody"), ("EMAIL", "somebody@example.com"))
}


def blocks() -> list[str]:
    return BLOCK.findall((ROOT / "docs" / "quickstart.md").read_text())


def test_make_up_ends_with_aq_up() -> None:
    target = (ROOT / "Makefile").read_text().partition("\nup:")[2].partition("\n\n")[0]
    assert target.splitlines()[-1].strip() == "@$(BIN)/aq up"
    assert "$(RUN)" in target


def test_every_quickstart_command_works_as_described(tmp_path: Path) -> None:
    first, *rest = blocks()
    assert first == "make up\n"
    # Another test may use the default port, and PATH must lead to the tested program.
    typed = "".join(rest).replace("$PWD/.venv/bin", str(Path(AQ).parent))
    shell = Shell(tmp_path, {"AQ_PORT": "0", **ACTOR})
    with shell.start("up") as running:
        assert running.stdout is not None
        for line in iter(running.stdout.readline, ""):
            if line.startswith("Ctrl-C stops it"):
                break
        done = subprocess.run(
            ["bash", "-eu", "-o", "pipefail", "-c", typed],
            cwd=tmp_path,
            env=environment(tmp_path, **ACTOR),
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        noted = [shell.aq("defect", "greet", *said) for said in (("-m", "too short"), ())]
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"greet +testing", done.stdout), "verified, without a review"
    assert re.search(r"^\+hello$", done.stdout, re.MULTILINE), "the diff"
    assert re.search(r"is in main as [0-9a-f]{12}", done.stdout), "shipped"
    assert (tmp_path / "projects" / "notes" / "hello.txt").read_text() == "hello\n"
    assert [each.code for each in noted] == [0, 2], "what was shipped can still be found wanting"
    assert "greet: defect recorded: too short" in noted[0].out
    assert "name one of --revert, --ticket and --message" in noted[1].err


def test_readme_links_to_the_quickstart() -> None:
    assert "(docs/quickstart.md)" in (ROOT / "README.md").read_text()
