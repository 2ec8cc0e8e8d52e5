"""`aq` commands as real processes against a real coordinator."""

import json
import signal
import socket
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.services.aq import AQ, Served, Shell, environment, serving

JOB = "---\nname: fix-login\nengine: claude\n---\n# Fix the login\n"
BROKEN = "---\nname: fix-login\nprofle: x\ntimeout: 3x\n---\n# Fix the login\n"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def served(home: Path) -> Iterator[Served]:
    with serving(Shell(home)) as coordinator:
        yield coordinator


@pytest.fixture
def shell(served: Served, home: Path, tmp_path: Path) -> Shell:
    """A terminal of the coordinator's owner, in a separate product."""
    product = f"p-{uuid.uuid4().hex}"
    return Shell(tmp_path, {"XDG_DATA_HOME": str(home / "share"), "AQ_PRODUCT_ID": product})


@pytest.fixture
def alone(tmp_path: Path) -> Shell:
    """A terminal on a machine without a coordinator."""
    return Shell(tmp_path, {"AQ_FLEET_API": "http://127.0.0.1:1"})


def written(shell: Shell, text: str = JOB, name: str = "fix-login.md") -> str:
    (shell.folder / name).write_text(text)
    return name


def submitted(shell: Shell, text: str = JOB) -> str:
    ran = shell.aq("submit", "-q", written(shell, text))
    assert ran.code == 0, ran.err
    return ran.out.strip()


def test_submitted_job_is_listed_and_shown(shell: Shell) -> None:
    ran = shell.aq("submit", written(shell))
    assert ran.code == 0
    assert "fix-login" in ran.out
    assert "queued" in ran.out
    listed = shell.aq("jobs")
    assert listed.out.splitlines()[0].split()[:3] == ["ID", "NAME", "STAGE"]
    assert "Fix the login" in listed.out
    shown = shell.aq("show", "fix-login", "--body")
    assert "actions" in shown.out
    assert "submitted" in shown.out
    assert shown.out.endswith("# Fix the login\n\n")


AT_A_GLANCE = {"click", "dataclasses", "httptools", "msgspec", "pathlib", "typing", "urllib.parse"}
"""Modules that other commands may import, but that are too slow for the most frequent ones."""


@pytest.mark.parametrize(
    ("typed", "by", "without"),
    [
        (["jobs"], "gigafactory.cli.fast_path", AT_A_GLANCE),
        (["jobs", "--json"], "gigafactory.cli.fast_path", AT_A_GLANCE),
        (["jobs", "-n", "9"], "gigafactory.client.transport.sync_client", set()),
    ],
)
def test_list_commands_import_no_slow_modules(
    shell: Shell, typed: list[str], by: str, without: set[str]
) -> None:
    submitted(shell)
    ran = subprocess.run(
        [sys.executable, "-X", "importtime", AQ, *typed],
        cwd=shell.folder,
        env=environment(shell.folder, **shell.environ),
        capture_output=True,
        check=True,
        text=True,
    )
    imported = {line.rpartition("|")[2].strip() for line in ran.stderr.splitlines()}
    assert "fix-login" in ran.stdout
    assert by in imported
    slow = {"asyncio", "email", "http.client", "httpx", "litestar", "ssl", "yaml"} | without
    assert imported & slow == set()


def test_job_is_submitted_from_stdin(shell: Shell) -> None:
    ran = shell.aq("submit", "-", stdin="# Fix — the login\n")
    assert ran.code == 0, ran.err
    assert "Fix — the login" in shell.aq("jobs").out


def test_invalid_file_in_a_batch_submits_nothing(shell: Shell) -> None:
    files = [written(shell, f"---\nname: job-{n}\n---\nDo {n}\n", f"{n}.md") for n in range(2)]
    broken = written(shell, BROKEN, "broken.md")
    ran = shell.aq("submit", *files, broken)
    assert ran.code == 1
    assert "broken.md:3: profle" in ran.err
    assert "nothing was submitted" in ran.err
    assert shell.aq("jobs", "--json").json() == {"jobs": [], "nextCursor": None}
    ran = shell.aq("submit", "-q", *files)
    assert len(ran.out.split()) == 2


def test_json_output_is_the_api_document(shell: Shell, served: Served) -> None:
    job_id = submitted(shell)
    shown = shell.aq("show", "fix-login", "--json").json()
    assert isinstance(shown, dict)
    assert shown["id"] == job_id
    assert shown["leaseEpoch"] == 0
    assert shown["events"][0]["type"] == "submitted"
    taken = shell.aq("submit", "--json", written(shell, "# Another\n", "another.md")).json()
    assert isinstance(taken, dict)
    assert taken["name"] == "another"


def test_filters_narrow_the_job_list(shell: Shell) -> None:
    submitted(shell)
    assert "fix-login" in shell.aq("jobs", "--stage", "queued", "-s", "review", "-t", "log").out
    empty = shell.aq("jobs", "--stage", "shipped")
    assert empty.out == ""
    assert "without filters" in empty.err
    assert shell.aq("jobs", "--stage", "nowhere").code == 2


def test_empty_job_list_suggests_submit(shell: Shell) -> None:
    ran = shell.aq("jobs")
    assert (ran.code, ran.out) == (0, "")
    assert "aq submit" in ran.err


def test_action_commands_change_the_job_stage(shell: Shell) -> None:
    submitted(shell)
    assert shell.aq("promote", "fix-login").code == 0
    cancelled = shell.aq("cancel", "fix-login", "-m", "not now")
    assert "cancelled" in cancelled.out
    assert "queued" in shell.aq("requeue", "fix-login", "--fresh").out
    items = [line.split()[2] for line in shell.aq("events", "fix-login").out.splitlines()]
    assert items == ["submitted", "promoted", "cancelled", "requeued"]


def test_illegal_action_exits_as_a_conflict(shell: Shell) -> None:
    submitted(shell)
    ran = shell.aq("approve", "fix-login")
    assert ran.code == 4
    assert "is queued and cannot become testing" in ran.err
    ran = shell.aq("request-review", "fix-login", "-r", "@ann", "-r", "bob", "--quorum", "2")
    assert ran.code == 4
    assert "request-review is for jobs that are building, review" in ran.err
    data = json.loads(shell.aq("approve", "fix-login", "--json").err)
    assert data["code"] == "illegal_transition"


def test_unknown_reference_exits_as_not_found(shell: Shell) -> None:
    for typed in (["show", "nope"], ["factory", "show", "nope"], ["profiles", "show", "nope"]):
        ran = shell.aq(*typed)
        assert ran.code == 3, typed
        assert "nope" in ran.err
        assert ran.out == ""


def test_wrong_token_names_the_token_setting(shell: Shell) -> None:
    ran = shell.aq("jobs", AQ_FLEET_TOKEN="wrong")
    assert ran.code == 6
    assert "AQ_FLEET_TOKEN" in ran.err


def test_unreachable_coordinator_suggests_aq_up(alone: Shell) -> None:
    ran = alone.aq("jobs")
    assert ran.code == 5
    assert "cannot reach http://127.0.0.1:1" in ran.err
    assert "aq up" in ran.err


def test_owner_token_is_not_sent_to_another_address(shell: Shell) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with shell.start("jobs", "--url", url) as command:
            connection, _ = listener.accept()
            with connection:
                request = connection.recv(65536).decode().lower()
                connection.sendall(b"HTTP/1.1 401 No\r\ncontent-length: 0\r\n\r\n")
            command.communicate()
    assert request.startswith("get /api/fleet/jobs")
    assert "authorization" not in request


def test_halt_and_resume_commands_switch_the_fleet(shell: Shell) -> None:
    halted = shell.aq("halt", "-m", "bad release")
    assert "is halted" in halted.out
    assert "halted" in shell.aq("attention").out
    assert "continues" in shell.aq("resume").out
    assert "halted" in shell.aq("audit").out


def test_factory_commands_enroll_drain_rotate_and_deregister(shell: Shell) -> None:
    name = f"mac-{uuid.uuid4().hex}"
    invited = shell.aq("factory", "invite", AQ_SERVER_PUBLIC_URL="https://fleet.example.com")
    assert "AQ_FLEET_API=https://fleet.example.com aq factory enroll" in invited.err
    invited = shell.aq("factory", "invite")
    assert "only this machine reaches that address" in invited.err
    secret = invited.out.strip()
    assert secret.startswith("gfe_")
    joined = shell.aq("factory", "enroll", name, stdin=f"{secret}\n")
    assert f"{name} has joined" in joined.out, joined.err
    again = shell.aq("factory", "enroll", name, "--secret", secret)
    assert again.code == 6
    assert "`aq factory invite`" in again.err
    assert name in shell.aq("factory", "list").out
    assert "is draining" in shell.aq("factory", "drain", name).out
    assert "takes jobs again" in shell.aq("factory", "undrain", name).out
    rotated = shell.aq("factory", "rotate").out
    assert "has a new token" in rotated
    assert "gff_" not in rotated, "this machine's own token is stored and not shown"
    assert shell.aq("factory", "rotate", "somebody-else").code == 3
    assert shell.aq("factory", "revoke", name).code == 0
    assert "slots     0" in shell.aq("factory", "show", name).out
    assert shell.aq("factory", "deregister", name).code == 0
    assert shell.aq("factory", "show", name).code == 3


def test_invitation_is_listed_and_withdrawn(shell: Shell) -> None:
    made = shell.aq("factory", "invite", "--products", "notes", "--json").json()
    assert isinstance(made, dict)
    listed = shell.aq("factory", "invitations").out
    [row] = [line for line in listed.splitlines() if made["id"] in line]
    assert "notes" in row
    assert made["secret"] not in listed
    assert "is withdrawn" in shell.aq("factory", "withdraw", made["id"]).out
    assert made["id"] not in shell.aq("factory", "invitations").out
    assert shell.aq("factory", "withdraw", made["id"]).code == 3
    assert shell.aq("factory", "enroll", "late", "--secret", made["secret"]).code == 6


def test_viewer_token_can_only_read(shell: Shell) -> None:
    made = shell.aq("tokens", "create", "ann", "--role", "viewer", "--lasts", "1h", "--json").json()
    assert isinstance(made, dict)
    assert shell.aq("jobs", AQ_FLEET_TOKEN=made["secret"]).code == 0
    ran = shell.aq("submit", written(shell), AQ_FLEET_TOKEN=made["secret"])
    assert ran.code == 6
    assert "role viewer" in ran.err
    assert made["secret"] not in shell.aq("tokens", "list").out
    assert shell.aq("tokens", "revoke", made["id"]).code == 0
    assert shell.aq("jobs", AQ_FLEET_TOKEN=made["secret"]).code == 6


def test_terminal_control_characters_in_instructions_are_escaped(shell: Shell) -> None:
    text = "# Fix\x1b]52;c;ZXZpbA==\x07 it\nFirst.\r\nSecond \u202e line.\n"
    assert shell.aq("submit", written(shell, text, "fix.md")).code == 0
    shown = shell.aq("show", "fix", "--body").out
    assert "# Fix<U+001B>]52;c;ZXZpbA==<U+0007> it\nFirst.\nSecond <U+202E> line.\n" in shown
    assert "\x1b" not in shown
    data: Any = shell.aq("show", "fix", "--body", "--json").json()
    assert data["body"] == text


def test_profiles_are_listed_shown_and_saved(shell: Shell) -> None:
    assert "docs-writer" in shell.aq("profiles", "list").out
    assert "senior" in shell.aq("profiles", "show", "qa").out
    file = written(shell, "---\nname: mine\ncapabilities: [gpu]\n---\nYou are mine.\n", "mine.md")
    assert shell.aq("profiles", "save", file).out == "mine@1\n"
    assert "You are mine." in shell.aq("profiles", "show", "mine@1").out
    broken = written(shell, "---\nnaem: mine\n---\nYou\n", "broken.md")
    ran = shell.aq("profiles", "save", broken)
    assert ran.code == 1
    assert "broken.md:2: naem" in ran.err


def test_explain_command_says_why_a_job_waits(shell: Shell) -> None:
    submitted(shell)
    ran = shell.aq("explain", "fix-login")
    assert ran.code == 0
    assert ran.out.startswith("queued: ")


def test_a_job_that_never_ran_has_no_log(shell: Shell) -> None:
    submitted(shell)
    assert shell.aq("logs", "fix-login").code == 3


def test_events_command_follows_new_events(shell: Shell) -> None:
    submitted(shell)
    with shell.start("events", "-f", "--json", "fix-login") as following:
        assert following.stdout is not None
        assert json.loads(following.stdout.readline())["type"] == "submitted"
        shell.aq("promote", "fix-login")
        assert json.loads(following.stdout.readline())["type"] == "promoted"
        following.send_signal(signal.SIGINT)
        _, err = following.communicate()
    assert following.returncode == 130
    assert "Traceback" not in err


def test_closed_pipe_ends_show_without_an_error(shell: Shell) -> None:
    submitted(shell, JOB + "line\n" * 100_000)
    piped = subprocess.run(
        ["sh", "-c", f"{AQ} show fix-login --body | head -n 1"],
        cwd=shell.folder,
        env=environment(shell.folder, **shell.environ),
        capture_output=True,
        check=False,
        text=True,
    )
    assert piped.stdout == "Fix the login\n"
    assert piped.stderr == ""


def test_doctor_names_the_missing_parts(shell: Shell, alone: Shell) -> None:
    well = shell.aq("doctor")
    assert well.code == 0, well.out
    ill: Any = alone.aq("doctor", "--json")
    assert ill.code == 1
    missing = [f for f in ill.json()["findings"] if f["fine"] is False]
    assert [finding["what"] for finding in missing] == ["coordinator"]
    assert "aq up" in missing[0]["fix"]
    short = shell.aq("doctor", AQ_LEASE_TTL="10", AQ_FLEET_LEASE_RENEW_SEC="3")
    assert short.code == 0
    assert "lease.ttl is 10 s and lease.renew-every 3 s" in short.out


def test_the_projects_folder_is_printed_chosen_and_checked(tmp_path: Path) -> None:
    person = Shell(tmp_path)
    assert person.aq("projects").out == f"{tmp_path / 'projects'}\n"
    (tmp_path / "code").mkdir()
    chosen = person.aq("projects", "code")
    assert chosen.out == f"{tmp_path / 'code'}\n"
    assert "restart `aq up`" in chosen.err
    assert person.aq("projects", "--json").json() == {"folders": [str(tmp_path / "code")]}
    assert "a whole home has more than projects" in person.aq("projects", str(tmp_path)).err
    (tmp_path / "file").touch()
    assert f"{tmp_path / 'file'} is not a folder" in person.aq("projects", "file").err
    result = person.aq("doctor").out
    assert f"folders for jobs: {tmp_path / 'code'}" in result
    assert "`aq projects DIR`" in result
    assert person.aq("projects", AQ_FACTORY_ROOTS="/srv/a,/srv/b").out == "/srv/a\n/srv/b\n"


def test_the_doctor_warns_of_settings_that_a_repo_may_have_brought(tmp_path: Path) -> None:
    (tmp_path / "aq.toml").write_text("[factory]\nslots = 2\n")
    assert "may have written it" not in Shell(tmp_path).aq("doctor").out
    (tmp_path / ".git").mkdir()
    result = Shell(tmp_path).aq("doctor").out
    assert f"is in the checkout {tmp_path}: the repo or a job may have written it" in result


def test_the_doctor_says_what_is_wrong_with_the_sandbox(tmp_path: Path) -> None:
    result = Shell(tmp_path).aq("doctor", PATH="/nowhere").out
    assert "yolo jobs are not taken: bubblewrap is not installed" in result
    assert "apt-get install bubblewrap" in result


def test_budget_commands_set_pause_and_resume(shell: Shell) -> None:
    assert "limit     none" in shell.aq("budget", "show").out
    made = shell.aq("budget", "set", "12.50", "--period", "day")
    assert "$12.5" in made.out
    assert json.loads(shell.aq("budget", "show", "--json").out)["leftUsd"] == "12.5"
    assert "was paused by" in shell.aq("budget", "pause", "-m", "ask finance").out
    assert "ask finance" in shell.aq("attention").out
    assert "ask finance" in shell.aq("budget", "show").err
    assert "continues" in shell.aq("budget", "resume").out
    assert "LEFT" in shell.aq("budget", "burndown").out
    assert shell.aq("budget", "set", "-5").code == 2
    assert shell.aq("budget", "set", "NaN").code == 2
    assert "limit     none" in shell.aq("budget", "set", "none").out


def test_roadmap_is_submitted_extended_and_shown_as_a_tree(shell: Shell) -> None:
    plan = "[{name: page, body: Do.}, {name: guide, body: Do., phase: 2, deps: [page]}]"
    text = f"---\nkind: composite\nchildren: {plan}\n---\n# The roadmap\n"
    assert shell.aq("submit", written(shell, text, "roadmap.md")).code == 0
    more = written(shell, "---\nphase: 3\n---\n# Extra\n", "extra.md")
    assert shell.aq("submit", "--parent", "roadmap", more).code == 0
    tree = shell.aq("dag", "roadmap").out
    assert "0 of 3 shipped" in tree
    assert "guide  phase 2, blocked (after page)" in tree
    data: Any = shell.aq("dag", "roadmap", "--json").json()
    assert [each["name"] for each in data["nodes"]] == ["roadmap", "page", "guide", "extra"]
    shown = shell.aq("show", "roadmap").out
    assert "2 blocked" in shown
    assert "phase=3" in shell.aq("show", "extra").out
    assert shell.aq("cancel", "roadmap").code == 0
