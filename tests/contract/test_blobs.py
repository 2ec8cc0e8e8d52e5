"""The contract of all blob stores."""

import asyncio
import os
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from gigafactory.blobs.files import FileBlobs
from gigafactory.coordinator.core.ports import Blobs
from gigafactory.domain.errors import NotFound, Unavailable
from tests.services import azurite, seaweedfs
from tests.simulation.ports import MemoryBlobs

MIB = 1 << 20
HOMES = ("file_blobs", "memory_blobs", "s3_blobs", "azure_blobs")
SERVICES = ("s3_blobs", "azure_blobs")


@pytest.fixture
def file_blobs(tmp_path: Path) -> Blobs:
    return FileBlobs(tmp_path / "blobs")


@pytest.fixture
def memory_blobs() -> Blobs:
    return MemoryBlobs()


@pytest.fixture
def s3_blobs(s3: str) -> Blobs:
    return seaweedfs.blobs(s3, f"test/{uuid.uuid4().hex}")


@pytest.fixture
def azure_blobs(azure: str) -> Blobs:
    return azurite.blobs(azure, f"test/{uuid.uuid4().hex}")


@pytest.fixture(
    params=[
        pytest.param(home, marks=pytest.mark.service if home in SERVICES else ()) for home in HOMES
    ]
)
def blobs(request: pytest.FixtureRequest) -> Blobs:
    """An empty blob store; each test runs once per store."""
    home: Blobs = request.getfixturevalue(request.param)
    return home


async def pieces(*data: bytes, then: Exception | None = None) -> AsyncIterator[bytes]:
    for piece in data:
        yield piece
    if then is not None:
        raise then


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


async def whole(blobs: Blobs, key: str, *, start: int = 0) -> bytes:
    return b"".join([piece async for piece in blobs.read(key, start=start)])


async def test_streamed_pieces_become_one_blob(blobs: Blobs) -> None:
    await blobs.put_stream("a/b/one", pieces(b"x" * MIB, b"", b"y"))
    assert await whole(blobs, "a/b/one") == b"x" * MIB + b"y"
    assert await whole(blobs, "a/b/one", start=MIB) == b"y"
    assert await whole(blobs, "a/b/one", start=2 * MIB) == b""
    assert await blobs.sizes("a/") == {"a/b/one": MIB + 1}


class PowerCut:
    """A simulated power cut: only synced files and folders survive, as they were then."""

    def __init__(self) -> None:
        self._files: dict[int, bytes] = {}
        self._folders: dict[int, dict[str, int]] = {}

    def sync(self, handle: int) -> None:
        path = Path(f"/proc/self/fd/{handle}").readlink()
        inode = os.fstat(handle).st_ino
        if path.is_dir():
            self._folders[inode] = {each.name: each.lstat().st_ino for each in path.iterdir()}
        else:
            self._files[inode] = path.read_bytes()

    def survivors(self, folder: Path) -> dict[str, bytes]:
        """Return the surviving content of the files below an existing folder, by path."""
        return dict(self._below(folder.stat().st_ino, ""))

    def _below(self, inode: int, path: str) -> Iterator[tuple[str, bytes]]:
        for name, child in self._folders.get(inode, {}).items():
            if name.startswith("."):
                continue
            if child in self._files:
                yield f"{path}{name}", self._files[child]
            else:
                yield from self._below(child, f"{path}{name}/")


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
async def test_stored_files_survive_a_power_cut(tmp_path: Path) -> None:
    power = PowerCut()
    blobs = FileBlobs(tmp_path / "data" / "blobs", sync=power.sync)
    (tmp_path / "data").mkdir()
    assert await blobs.put_new("logs/job-1/1/0", b"one")
    assert await blobs.put_new("logs/job-1/1/3", b"two")
    await blobs.put_stream("artifacts/job-1/a", pieces(b"a", b"b"))
    assert power.survivors(tmp_path / "data") == {
        "blobs/logs/job-1/1/0": b"one",
        "blobs/logs/job-1/1/3": b"two",
        "blobs/artifacts/job-1/a": b"ab",
    }


async def test_large_blob_is_uploaded_in_parts_and_read_whole(blobs: Blobs) -> None:
    data = bytes(range(256)) * (9 * MIB // 256)
    sent = (data[at : at + 700_000] for at in range(0, len(data), 700_000))
    await blobs.put_stream("a/long", pieces(b"", *sent, b"", data, b"end"))
    assert await blobs.sizes("a/") == {"a/long": 18 * MIB + 3}
    assert await whole(blobs, "a/long") == data + data + b"end"
    assert await whole(blobs, "a/long", start=18 * MIB - 1) == data[-1:] + b"end"


async def test_empty_blob_is_stored(blobs: Blobs) -> None:
    await blobs.put_stream("a/none", pieces())
    assert await whole(blobs, "a/none") == b""
    assert await blobs.sizes("a/") == {"a/none": 0}


async def test_blob_is_visible_only_when_complete(blobs: Blobs) -> None:
    async def looking() -> AsyncIterator[bytes]:
        yield b"first"
        assert await blobs.sizes("a/") == {}
        yield b"last"

    await blobs.put_stream("a/one", looking())
    assert await blobs.sizes("a/") == {"a/one": 9}


async def test_interrupted_upload_leaves_nothing(blobs: Blobs, tmp_path: Path) -> None:
    with pytest.raises(ConnectionError, match="gone"):
        await blobs.put_stream("a/one", pieces(b"some", then=ConnectionError("gone")))
    assert await blobs.sizes("a/") == {}
    assert files(tmp_path) == []
    await blobs.put_stream("a/one", pieces(b"again"))
    assert await whole(blobs, "a/one") == b"again"


async def test_multipart_upload_interrupted_midway_leaves_nothing(blobs: Blobs) -> None:
    sent = [b"x" * MIB] * 20
    with pytest.raises(ConnectionError, match="gone"):
        await blobs.put_stream("a/one", pieces(*sent, then=ConnectionError("gone")))
    assert await blobs.sizes("a/") == {}
    with pytest.raises(NotFound):
        await whole(blobs, "a/one")


async def test_missing_blob_is_not_found(blobs: Blobs) -> None:
    with pytest.raises(NotFound):
        await whole(blobs, "a/none")


async def test_put_new_does_not_overwrite_an_existing_key(blobs: Blobs) -> None:
    assert await blobs.put_new("a/one", b"first")
    assert not await blobs.put_new("a/one", b"second")
    assert await whole(blobs, "a/one") == b"first"


async def test_delete_prefix_removes_only_matching_keys(blobs: Blobs) -> None:
    for key in ("a/one", "a/one-more", "a/two", "b/one"):
        await blobs.put_stream(key, pieces(b"x"))
    assert await blobs.delete("a/one") == 2
    assert list(await blobs.sizes("")) == ["a/two", "b/one"]
    assert await blobs.delete("a/") == 1
    assert await blobs.delete("a/") == 0
    assert list(await blobs.sizes("")) == ["b/one"]


async def test_concurrent_removals_of_a_blob_do_not_disturb_each_other(blobs: Blobs) -> None:
    for round_ in range(5):
        for number in range(8):
            await blobs.put_stream(f"logs/{round_}/{number}/0", pieces(b"x"))
        await asyncio.gather(*(blobs.delete(f"logs/{round_}/") for _ in range(4)))
        assert await blobs.sizes(f"logs/{round_}/") == {}


async def test_keys_are_listed_in_order_and_after_a_key(blobs: Blobs) -> None:
    for key in ("a/3", "a/1", "a/2", "b/4"):
        assert await blobs.put_new(key, key.encode())
    assert list(await blobs.sizes("")) == ["a/1", "a/2", "a/3", "b/4"]
    assert list(await blobs.sizes("a/", after="a/1")) == ["a/2", "a/3"]
    assert list(await blobs.sizes("a/", after="a/15")) == ["a/2", "a/3"]
    assert await blobs.sizes("a/", after="a/3") == {}
    assert await blobs.sizes("c/") == {}


@pytest.mark.service
async def test_wrong_s3_credentials_are_reported(s3: str) -> None:
    blobs = seaweedfs.blobs(s3, "test", secret="not-the-secret")
    with pytest.raises(Unavailable, match=r"fleet/test is unavailable: 403 .*SignatureDoesNot"):
        await blobs.check()
    with pytest.raises(Unavailable, match="is unavailable"):
        await blobs.put_new("a/one", b"x")


@pytest.mark.service
async def test_missing_azure_container_is_reported(azure: str) -> None:
    blobs = azurite.blobs(azure, "test", container="nowhere")
    with pytest.raises(Unavailable, match=r"nowhere/test is unavailable: 404 .*NotFound"):
        await blobs.check()


async def test_delete_removes_the_partial_upload_of_its_key(tmp_path: Path) -> None:
    blobs = FileBlobs(tmp_path)
    (tmp_path / "a").mkdir()
    for name in (".one.begun", ".two.begun"):
        (tmp_path / "a" / name).write_bytes(b"half")
    assert await blobs.sizes("a/") == {}
    await blobs.delete("a/one")
    assert [path.name for path in (tmp_path / "a").iterdir()] == [".two.begun"]
