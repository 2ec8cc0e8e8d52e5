"""The coordinator as a process: startup, printed URL, restart and shutdown."""

import http.client
import json
import signal
import socket
import stat
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from gigafactory.client.transport.call import ApiCall
from gigafactory.client.transport.sync_client import Client
from tests.services.answering import answer, answering
from tests.services.aq import AQ, STOP_WITHIN_S, Shell, environment, serving

JOB = "---\nname: fix-login\n---\n# Fix the login\n"
LAST_LINE = "Ctrl-C stops it. Nothing is lost: `aq up` continues where it stopped.\n"


def submit(shell: Shell) -> None:
    assert shell.aq("submit", "-", stdin=JOB).code == 0


def test_up_prints_its_url_and_refuses_a_second_coordinator(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    data = tmp_path / "share" / "gigafactory"
    with shell.start("up", "--port", "0") as running:
        assert running.stdout is not None
        banner = "".join(iter(running.stdout.readline, LAST_LINE))
        token = (data / "admin.token").read_text().strip()
        pages = (data / "pages.host").read_text().strip()
        assert f"Gigafactory is up at http://{pages}:" in banner
        assert f"open    http://{pages}:" in banner
        assert "api     http://127.0.0.1:" in banner
        assert str(data / "admin.token") in banner
        assert token not in banner
        assert "aq submit" in banner
        assert stat.S_IMODE((data / "admin.token").stat().st_mode) == 0o600
        submit(shell)
        second = shell.aq("up", "--port", "0")
        assert second.code == 5
        assert "a coordinator already runs at http://127.0.0.1:" in second.err
        running.send_signal(signal.SIGINT)
        running.communicate()
    assert running.returncode == 0
    assert not (data / "server.url").exists()


def test_second_interrupt_ends_the_server_as_quietly_as_the_first(tmp_path: Path) -> None:
    with Shell(tmp_path).start("up", "--no-factory", "--port", "0") as running:
        assert running.stdout is not None
        for line in iter(running.stdout.readline, LAST_LINE):
            assert line
        url = urlsplit((tmp_path / "share" / "gigafactory" / "server.url").read_text().strip())
        address = (url.hostname or "", url.port or 0)
        # An unfinished request keeps the server busy between the two.
        with socket.create_connection(address) as half:
            half.sendall(b"POST /api/fleet/jobs HTTP/1.1\r\nHost: localhost\r\n")
            running.send_signal(signal.SIGINT)
            wait_until_refused(address)
            running.send_signal(signal.SIGINT)
            _, err = running.communicate()
    assert running.returncode == 0
    assert "Traceback" not in err


@pytest.mark.parametrize("command", [("jobs",), ("jobs", "--json"), ("submit", "-")])
def test_a_program_on_the_port_of_a_killed_coordinator_gets_no_token(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    shell = Shell(tmp_path)
    with serving(shell) as served:
        assert shell.aq("jobs").code == 0
        served.process.kill()
    with answering(answer(b'{"jobs": []}')) as other:
        (tmp_path / "share" / "gigafactory" / "server.url").write_text(f"{other.url}\n")
        shell.aq(*command, stdin=JOB)
        heads = other.heard()
    assert heads
    assert not [head for head in heads if "authorization" in head.lower()]


def wait_until_refused(address: tuple[str, int]) -> None:
    deadline = time.monotonic() + 30
    with suppress(ConnectionRefusedError):
        while time.monotonic() < deadline:
            socket.create_connection(address).close()
            time.sleep(0.02)
        raise AssertionError(f"{address} still accepts connections")


def test_up_says_how_another_terminal_finds_the_program(tmp_path: Path) -> None:
    paths = {"/usr/bin:/bin": True, f"{Path(AQ).parent}:/usr/bin:/bin": False}
    for path, expected in paths.items():
        with Shell(tmp_path, {"PATH": path}).start("up", "--no-factory", "--port", "0") as running:
            assert running.stdout is not None
            banner = "".join(iter(running.stdout.readline, LAST_LINE))
        assert (f'  export PATH="{Path(AQ).parent}:$PATH"\n' in banner) is expected


@pytest.mark.parametrize("command", [("up", "--port", "0"), ("projects",)])
def test_a_data_folder_that_cannot_be_made_is_named(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    (tmp_path / "file").touch()
    ran = Shell(tmp_path, {"AQ_DATA": str(tmp_path / "file" / "data")}).aq(*command)
    assert ran.code == 5
    assert ran.err.startswith(f"aq: cannot write to the data folder {tmp_path}/file/data: Not a")
    assert "AQ_DATA" in ran.err


def test_an_address_that_a_killed_coordinator_left_is_not_called_running(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        data = tmp_path / "data"
        data.mkdir()
        (data / "server.url").write_text("http://127.0.0.1:1\n")
        ran = Shell(tmp_path, {"AQ_DATA": str(data)}).aq("up", "--port", port)
    assert ran.code == 5
    assert f"cannot listen on 127.0.0.1:{port}" in ran.err
    assert "already runs" not in ran.err


def test_file_dropped_into_the_inbox_becomes_a_job(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    inbox = tmp_path / "share" / "gigafactory" / "inbox"
    with shell.start("up", "--no-factory", "--port", "0") as running:
        assert running.stdout is not None
        assert str(inbox) in "".join(iter(running.stdout.readline, LAST_LINE))
        wait_until_exists(inbox / "taken")
        (inbox / "fix-login.md").write_text("# Fix the login\n")
        (inbox / "odd.md").write_text("---\npriorty: high\n---\n# Odd\n")
        wait_until_exists(inbox / "taken" / "fix-login.md")
        wait_until_exists(inbox / "refused" / "odd.errors.txt")
        assert "priority" in (inbox / "refused" / "odd.errors.txt").read_text()
        (inbox / "fix-login.md").write_text("# Fix another login\n")
        wait_until_exists(inbox / "refused" / "fix-login.errors.txt")
        assert "fix-login" in (inbox / "refused" / "fix-login.errors.txt").read_text()
        jobs = shell.aq("jobs", "--json").json()
        assert isinstance(jobs, dict)
        assert [job["name"] for job in jobs["jobs"]] == ["fix-login"]
        running.send_signal(signal.SIGINT)
        running.communicate()
    assert running.returncode == 0


def wait_until_exists(path: Path) -> None:
    deadline = time.monotonic() + 30
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} does not come to be"
        time.sleep(0.05)


def test_a_restart_keeps_jobs_and_token(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    with serving(shell) as first:
        submit(shell)
    with serving(shell) as again:
        assert again.token == first.token
        assert "fix-login" in shell.aq("jobs").out
    assert first.process.returncode == again.process.returncode == 0


def test_invalid_admin_token_is_replaced_at_startup(tmp_path: Path) -> None:
    shell = Shell(tmp_path, {"AQ_STORE": "memory:"})
    with serving(shell) as first:
        pass
    with serving(shell) as again:
        assert again.token != first.token
        assert shell.aq("jobs").code == 0


def test_unwise_settings_are_warned_about_at_startup(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        shell = Shell(tmp_path, {"AQ_LEASE_TTL": "10", "AQ_FLEET_LEASE_RENEW_SEC": "3"})
        ran = shell.aq("serve", "--port", port)
    assert "lease.ttl is 10 s and lease.renew-every 3 s" in ran.err


def test_port_in_use_is_reported_with_the_setting_to_change(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        ran = Shell(tmp_path).aq("serve", "--port", port)
    assert ran.code == 5
    assert f"cannot listen on 127.0.0.1:{port}" in ran.err
    assert "AQ_PORT" in ran.err


def test_open_streams_do_not_delay_shutdown(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    with serving(shell) as served, shell.start("events", "-f", "--json"):
        numbers = ApiCall(method="GET", path="/metrics", response_type=bytes)
        with Client(served.url) as client:
            while b"gigafactory_streams_open 1.0" not in client.send(numbers):
                pass
        served.process.terminate()
        assert served.process.wait(STOP_WITHIN_S) == 0


def test_postgresql_store_is_configurable(database: str, tmp_path: Path) -> None:
    shell = Shell(tmp_path, {"AQ_STORE": database})
    with serving(shell):
        submit(shell)
        assert "fix-login" in shell.aq("jobs").out
    assert not (tmp_path / "share" / "gigafactory" / "fleet.db").exists()


def test_unknown_store_scheme_is_rejected(tmp_path: Path) -> None:
    ran = Shell(tmp_path).aq("serve", "--port", "0", "--store", "mysql://x/y")
    assert ran.code == 1
    assert "expected sqlite:///…, postgresql://… or memory:" in ran.err


def test_history_is_written_to_the_given_file(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    with serving(shell, "--history", "history.jsonl"):
        submit(shell)
    lines = [json.loads(line) for line in (tmp_path / "history.jsonl").read_text().splitlines()]
    assert {"asked", "answered"} <= {line["kind"] for line in lines}


def test_loopback_coordinator_rejects_other_host_names(tmp_path: Path) -> None:
    with serving(Shell(tmp_path)) as served:
        assert asked_as("127.0.0.1", served.url) == http.HTTPStatus.OK
        assert asked_as("evil.test", served.url) == http.HTTPStatus.MISDIRECTED_REQUEST


def test_a_coordinator_that_others_reach_without_tls_warns(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        for options, warned in (({}, True), ({"AQ_SERVER_PUBLIC_URL": "https://a.example"}, False)):
            shell = Shell(tmp_path, {"AQ_HOST": "0.0.0.0", "AQ_PORT": port, **options})  # noqa: S104 - the subject
            assert ("nothing says that TLS is in front" in shell.aq("serve").err) is warned


def asked_as(host: str, url: str) -> int:
    at = urlsplit(url)
    connection = http.client.HTTPConnection(at.hostname or "", at.port)
    connection.request("GET", "/healthz", headers={"host": host})
    status = connection.getresponse().status
    connection.close()
    return status


def test_too_rare_lease_renewals_prevent_startup(tmp_path: Path) -> None:
    ran = Shell(tmp_path).aq("serve", "--port", "0", AQ_LEASE_TTL="30")
    assert ran.code == 1
    assert "less than half of lease.ttl" in ran.err


def test_missing_database_driver_names_what_to_install(tmp_path: Path) -> None:
    script = (
        "import sys; sys.modules['asyncpg'] = None\n"
        "sys.argv = ['aq', 'serve', '--store', 'postgresql://127.0.0.1:1/x']\n"
        "from gigafactory.cli.main import main; sys.exit(main())"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script],
        env=environment(tmp_path),
        capture_output=True,
        check=False,
        text=True,
    )
    assert ran.returncode == 5
    assert "pip install 'gigafactory[postgres]'" in ran.stderr
