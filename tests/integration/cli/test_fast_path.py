"""The fast path prints the same output as the full command, and falls back to it if in doubt."""

import json
import os
import pty
import signal
import subprocess
import termios
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.services.answering import Answering, answer, answering
from tests.services.aq import AQ, Shell, environment

SINCE = datetime.now(UTC) - timedelta(days=3, hours=12)
WITHIN_S = 60.0

JOB: dict[str, object] = {
    "id": "01J",
    "name": "fix-login",
    "title": "Fix the login",
    "stage": "queued",
    "priority": "normal",
    "engine": None,
    "lease": None,
    "flags": [],
    "stageSince": SINCE.isoformat(),
}
LEASE = {"factoryId": "mac-1", "expiresAt": SINCE.isoformat()}
STAGES = ("blocked", "queued", "assigned", "building", "review", "testing", "shipped", "failed")
MATTER = {
    "kind": "review",
    "subject": "fix-login",
    "title": "Fix \x1b[2Jthe login",
    "since": SINCE.isoformat(),
    "reason": "it waits",
    "actions": ["approve", "reject"],
    "productId": None,
}


def page(*jobs: Mapping[str, object], cursor: str | None = None) -> dict[str, object]:
    return {"jobs": jobs, "nextCursor": cursor}


ANSWERS = {
    "none": page(),
    "one": page(JOB),
    "many": page(*(JOB | {"id": f"01J{n}", "stage": stage} for n, stage in enumerate(STAGES))),
    "more": page(JOB, cursor="abc"),
    "an escape in the cursor": page(JOB, cursor="a\x1b[2Jc"),
    "at work": page(JOB | {"engine": "claude", "lease": LEASE}, JOB | {"lease": LEASE}),
    "flags": page(JOB | {"flags": ["edited", "over_budget"]}),
    "another alphabet": page(JOB | {"title": "Вход — 登录 🚀", "name": "größe"}),
    "escapes": page(JOB | {"title": "a\x1b[2J\x1b]52;c;aGk=\x07b\x9b1m\r\n\tc\x00\x7f"}),
    "a stage for a title": page(JOB | {"title": "failed"}),
    "a long title": page(JOB | {"title": "word " * 100}),
    "no cursor at all": {"jobs": [JOB]},
    "more than is known": page(JOB | {"stage": "new", "more": {"of": [1, -2.5, True, None, {}]}}),
}
CUT_OFF = answer(json.dumps(page(JOB)).encode())[:-1]
CHUNKED = (
    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
    + "".join(f"{len(part):x}\r\n{part}\r\n" for part in ('{"jobs":', "[]}", ""))
).encode()
PROBLEM = b'{"code": "unauthenticated", "detail": "who are you?"}'


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def came_from_the_fast_path(head: str) -> bool:
    return "\r\nconnection: close" in head


def same(shell: Shell, server: Answering, *typed: str, **environ: str) -> None:
    """Check that the fast path and the full command send the same request and print the same."""
    environ["AQ_FLEET_API"] = server.url
    items = [shell.aq(*typed, **environ), shell.aq(*typed, **environ, AQ_LOG_LEVEL="info")]
    assert items[0] == items[1]
    assert items[0].code == 0
    quick, usual = server.heard()
    assert came_from_the_fast_path(quick)
    assert not came_from_the_fast_path(usual)
    assert set(quick.splitlines()) - set(usual.splitlines()) == {"connection: close"}


@pytest.mark.parametrize("flags", [(), ("--json",)])
@pytest.mark.parametrize("name", ANSWERS)
def test_fast_path_lists_jobs_like_the_full_command(
    shell: Shell, name: str, flags: tuple[str, ...]
) -> None:
    for ascii_only in (True, False):
        body = json.dumps(ANSWERS[name], ensure_ascii=ascii_only, default=list).encode()
        with answering(answer(body)) as server:
            same(shell, server, "jobs", *flags)


@pytest.mark.parametrize("flags", [(), ("--json",)])
@pytest.mark.parametrize("waiting", [[], [MATTER, MATTER]])
def test_fast_path_lists_attention_items_like_the_full_command(
    shell: Shell, waiting: list[object], flags: tuple[str, ...]
) -> None:
    with answering(answer(json.dumps({"attention": waiting}).encode())) as server:
        same(shell, server, "attention", *flags)


def test_fast_path_sends_the_same_token_and_product(shell: Shell) -> None:
    with answering(answer(b'{"jobs": []}')) as server:
        same(shell, server, "jobs", AQ_FLEET_TOKEN="gfo_mine", AQ_PRODUCT_ID="shop")
        shell.aq("jobs", AQ_FLEET_API=server.url, AQ_FLEET_TOKEN="gfo_mine")
        assert "\r\nauthorization: Bearer gfo_mine\r\n" in server.next()


def test_owner_token_is_sent_only_to_the_owners_coordinator(shell: Shell) -> None:
    (shell.folder / "admin.token").write_text("gfo_owner\n")
    data = str(shell.folder)
    with answering(answer(b'{"jobs": []}')) as here, answering(answer(b'{"jobs": []}')) as away:
        (shell.folder / "server.url").write_text(f"{here.url}\n")
        same(shell, here, "jobs", AQ_DATA=data)
        same(shell, away, "jobs", AQ_DATA=data)
        shell.aq("jobs", AQ_DATA=data)
        shell.aq("jobs", AQ_DATA=data, AQ_FLEET_API=f"{here.url}/")
        shell.aq("jobs", AQ_DATA=data, AQ_FLEET_API=away.url)
        for head in here.heard():
            assert "\r\nauthorization: Bearer gfo_owner\r\n" in head
            assert "x-product-id" not in head
        assert "gfo_owner" not in "".join(away.heard())


def on_terminal(shell: Shell, *typed: str, **environ: str) -> bytes:
    """Run `aq` on a terminal of 60 columns and return its output."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 60))
    env = environment(shell.folder, **environ)
    if not environ.get("NO_COLOR"):
        del env["NO_COLOR"]
    with subprocess.Popen([AQ, *typed], cwd=shell.folder, env=env, stdout=theirs, stderr=theirs):
        os.close(theirs)
        seen = b""
        try:
            while piece := os.read(ours, 65_536):
                seen += piece
        except OSError:  # Linux raises it after the last writer has closed
            pass
        finally:
            os.close(ours)
    return seen


@pytest.mark.parametrize("plain", ["", "1"])
@pytest.mark.parametrize("name", ["many", "more", "escapes", "a stage for a title", "a long title"])
def test_fast_path_looks_the_same_on_a_terminal(shell: Shell, name: str, plain: str) -> None:
    with answering(answer(json.dumps(ANSWERS[name]).encode())) as server:
        environ = {"AQ_FLEET_API": server.url, "NO_COLOR": plain}
        quick = on_terminal(shell, "jobs", **environ)
        assert quick == on_terminal(shell, "jobs", **environ, AQ_LOG_LEVEL="info")
        assert list(map(came_from_the_fast_path, server.heard())) == [True, False]
    assert (b"\x1b[36mqueued" in quick) is not bool(plain)
    assert ("…".encode() in quick) is (name in {"many", "more", "a long title"})
    assert b"\x1b[2J" not in quick


@pytest.mark.parametrize(
    ("come", "code", "told"),
    [
        (answer(PROBLEM, "401 Unauthorized"), 6, "who are you?"),
        (answer(b"", "500 Internal Server Error"), 5, "answered 500"),
        (answer(b"", "302 Found", "location: http://127.0.0.1:1/"), 1, ""),
        (b"HTTP/1.1 103 Early Hints\r\n\r\n" + answer(b'{"jobs": []}'), 0, "no jobs yet"),
        (CHUNKED, 0, "no jobs yet"),
        (b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n{}", 1, "KeyError"),
        (CUT_OFF, 5, "closed before the response was complete"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", 5, "not HTTP"),
        (b"", 5, "closed before"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\n<html>", 1, "JSONDecodeError"),
    ],
    ids=[
        "refused",
        "failed",
        "elsewhere",
        "hints",
        "chunks",
        "no length",
        "cut off",
        "not HTTP",
        "nothing",
        "not JSON",
    ],
)
def test_unexpected_response_falls_back_to_the_full_command(
    shell: Shell, come: bytes, code: int, told: str
) -> None:
    with answering(come) as server:
        ran = shell.aq("jobs", AQ_FLEET_API=server.url)
        quick, *usual = server.heard()
        again = shell.aq("jobs", "-n", "50", AQ_FLEET_API=server.url)
    assert came_from_the_fast_path(quick)
    assert usual
    assert not any(map(came_from_the_fast_path, usual))
    assert (ran.code, ran.out) == (again.code, again.out) == (code, "")
    assert told in ran.err
    assert ran.err.splitlines()[-1:] == again.err.splitlines()[-1:]


@pytest.mark.parametrize(
    ("typed", "environ"),
    [
        (["jobs", "--stage", "queued"], {}),
        (["jobs", "-n", "50", "--json"], {}),
        (["jobs"], {"AQ_LOG_LEVEL": "debug"}),
        (["jobs"], {"AQ_DATA": "beside"}),
        (["jobs"], {"AQ_NOTHING": "1"}),
    ],
)
def test_unusual_options_skip_the_fast_path(
    shell: Shell, typed: list[str], environ: dict[str, str]
) -> None:
    with answering(answer(b'{"jobs": []}')) as server:
        assert shell.aq(*typed, AQ_FLEET_API=server.url, **environ).code == 0
        assert list(map(came_from_the_fast_path, server.heard())) == [False]


def test_settings_file_applies_to_subfolders(shell: Shell) -> None:
    below = shell.folder / "a" / "b"
    below.mkdir(parents=True)
    with answering(answer(b'{"jobs": []}')) as server:
        (shell.folder / "aq.toml").write_text(f"[client]\nurl = '{server.url}'\nproduct = 'shop'\n")
        assert Shell(below).aq("jobs").code == 0
        head = server.next()
    assert "\r\nx-product-id: shop\r\n" in head
    assert not came_from_the_fast_path(head)


def test_proxy_is_used_except_for_loopback(shell: Shell) -> None:
    with answering(answer(b'{"jobs": []}')) as server:
        same(shell, server, "jobs", HTTP_PROXY="http://127.0.0.1:1")
        away = {"AQ_FLEET_API": "http://fleet.test:80", "HTTP_PROXY": server.url}
        assert shell.aq("jobs", **away).code == 0
        assert [head.split()[1] for head in server.heard()] == [
            "http://fleet.test:80/api/fleet/jobs"
        ]


@pytest.mark.parametrize(
    ("typed", "environ", "code", "told"),
    [
        (["jobs"], {"AQ_FLEET_API": "http://127.0.0.1:1"}, 5, "aq up"),
        (["jobs", "--json"], {"AQ_FLEET_API": "http://127.0.0.1:1"}, 5, '{"code":"unreachable"'),
        (["jobs"], {"AQ_FLEET_API": "https://127.0.0.1:1"}, 5, "cannot reach https://"),
        (["jobs"], {"AQ_FLEET_API": "http://127.0.0.1:99999"}, 5, "expected http://HOST:PORT"),
        (["jobs"], {"AQ_FLEET_API": "http://u@127.0.0.1:1"}, 5, "cannot reach"),
        (["jobs"], {"AQ_FLEET_API": "nowhere"}, 5, "expected http://HOST:PORT"),
        (["jobs"], {"AQ_PORT": "none"}, 1, "server.port"),
        (["jobs", "--nope"], {}, 2, "--nope"),
    ],
)
def test_errors_are_reported_by_the_full_command(
    shell: Shell, typed: list[str], environ: dict[str, str], code: int, told: str
) -> None:
    ran = shell.aq(*typed, **environ)
    assert (ran.code, ran.out) == (code, "")
    assert told in ran.err


def test_header_injection_in_a_token_is_rejected(shell: Shell) -> None:
    with answering(answer(b'{"jobs": []}')) as server:
        for token in ("gfo\r\nx-evil: 1", "größe"):
            ran = shell.aq("jobs", AQ_FLEET_API=server.url, AQ_FLEET_TOKEN=token)
            assert ran.code == 1
            assert "only plain ASCII" in ran.err
        assert server.heard() == []


def test_ctrl_c_ends_a_waiting_request(shell: Shell) -> None:
    with answering(b"", held=True) as server:
        env = environment(shell.folder, AQ_FLEET_API=server.url)
        with subprocess.Popen([AQ, "jobs"], env=env, cwd=shell.folder, stderr=-1) as process:
            try:
                assert came_from_the_fast_path(server.next())
                process.send_signal(signal.SIGINT)
                _, err = process.communicate(timeout=WITHIN_S)
            finally:
                process.kill()
    assert process.returncode == 130
    assert err == b"\n"


@pytest.mark.parametrize("typed", [["jobs"], ["jobs", "-n", "50"]])
def test_closed_pipe_ends_the_list_without_an_error(shell: Shell, typed: list[str]) -> None:
    with answering(answer(json.dumps(ANSWERS["many"]).encode())) as server:
        ours, theirs = os.pipe()
        os.close(ours)
        env = environment(shell.folder, AQ_FLEET_API=server.url)
        ran = subprocess.run(
            [AQ, *typed],
            env=env,
            cwd=shell.folder,
            stdout=theirs,
            stderr=subprocess.PIPE,
            check=False,
        )
        os.close(theirs)
    assert (ran.returncode, ran.stderr) == (1, b"")
