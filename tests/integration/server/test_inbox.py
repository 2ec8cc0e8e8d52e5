"""The inbox of `aq up`: no dropped file is lost or submitted twice."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from gigafactory.client.transport.async_client import AsyncClient
from gigafactory.domain.manifest.job_file import parse_job_file
from gigafactory.domain.manifest.manifest import JobFile
from gigafactory.server.inbox import BYTES_MAX, InboxWatcher
from tests.support.api_server import Server, a_server

LONG_AGO = 1_700_000_000


@pytest_asyncio.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    async with a_server(tmp_path / "coordinator") as made:
        yield made


@pytest_asyncio.fixture
async def inbox(tmp_path: Path, server: Server) -> AsyncIterator[InboxWatcher]:
    async with AsyncClient(server.url, server.admin_token, product="notes") as client:
        yield InboxWatcher(tmp_path / "inbox", client)


def drop(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(text)
    os.utime(path, (LONG_AGO, LONG_AGO))
    return path


async def names(server: Server) -> list[str]:
    async with server.client() as people:
        return [job["name"] for job in (await people.get("/jobs")).json()["jobs"]]


async def test_file_submitted_before_a_crash_is_not_submitted_again(
    tmp_path: Path, server: Server, inbox: InboxWatcher
) -> None:
    path = drop(tmp_path / "inbox", "fix.md", "# Fix it\n")
    await inbox.submit_files()
    taken = tmp_path / "inbox" / "taken" / "fix.md"
    taken.rename(path)  # like a crash before the move
    await inbox.submit_files()
    assert await names(server) == ["fix"]
    assert taken.exists()


async def test_invalid_file_is_moved_to_refused_with_the_reason(
    tmp_path: Path, server: Server, inbox: InboxWatcher
) -> None:
    drop(tmp_path / "inbox", "large.md", "x" * (BYTES_MAX + 1))
    drop(tmp_path / "inbox", "broken.md", "---\nname: [\n---\n")
    await inbox.submit_files()
    refused = tmp_path / "inbox" / "refused"
    assert "the maximum is" in (refused / "large.errors.txt").read_text()
    assert (refused / "broken.errors.txt").read_text()
    assert (refused / "broken.md").read_text().startswith("---")
    assert await names(server) == []


async def test_files_stay_in_the_inbox_while_the_coordinator_is_unreachable(tmp_path: Path) -> None:
    path = drop(tmp_path / "inbox", "fix.md", "# Fix it\n")
    async with AsyncClient("http://127.0.0.1:1", "none", retry_delays=()) as unreachable:
        await InboxWatcher(tmp_path / "inbox", unreachable).submit_files()
    assert path.exists()


async def test_link_or_folder_in_the_inbox_does_not_block_it(
    tmp_path: Path, server: Server, inbox: InboxWatcher
) -> None:
    folder = tmp_path / "inbox"
    drop(folder, "fix.md", "# Fix it\n")
    (folder / "dangling.md").symlink_to(tmp_path / "nowhere")
    (folder / "folder.md").mkdir()
    await inbox.submit_files()
    assert await names(server) == ["fix"]
    assert sorted(path.name for path in folder.glob("*.md")) == ["dangling.md", "folder.md"]


async def test_one_hostile_file_never_stops_the_others(
    tmp_path: Path, server: Server, inbox: InboxWatcher
) -> None:
    folder = tmp_path / "inbox"
    drop(folder, "a-yaml.md", '---\nx: "\u2028\u2028\u2028" y: [\n---\nb')
    drop(folder, os.fsdecode(b"b-caf\xe9.md"), "not in UTF-8")
    drop(folder, "good.md", "# Fine\n")
    await inbox.submit_files()
    assert await names(server) == ["good"]
    assert "not readable as YAML" in (folder / "refused" / "a-yaml.errors.txt").read_text()
    assert len(list((folder / "refused").glob("b-caf*.errors.txt"))) == 1


async def test_an_error_that_nobody_expected_concerns_one_file(
    tmp_path: Path, server: Server, inbox: InboxWatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(data: bytes, *, stem: str | None = None) -> JobFile:
        if stem == "a-odd":
            raise IndexError("list index out of range")
        return parse_job_file(data, stem=stem)

    monkeypatch.setattr("gigafactory.server.inbox.parse_job_file", fails)
    drop(tmp_path / "inbox", "a-odd.md", "# Odd\n")
    drop(tmp_path / "inbox", "good.md", "# Fine\n")
    await inbox.submit_files()
    assert await names(server) == ["good"]
    assert "IndexError" in (tmp_path / "inbox" / "refused" / "a-odd.errors.txt").read_text()
