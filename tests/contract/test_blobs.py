"""What every home of bytes promises."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from gigafactory.blobs.files import FileBlobs
from gigafactory.coordinator.ports import Blobs
from gigafactory.domain.errors import NotFound
from tests.simulation.ports import MemoryBlobs

MIB = 1 << 20
HOMES: dict[str, Callable[[Path], Blobs]] = {
    "files": lambda folder: FileBlobs(folder / "blobs"),
    "memory": lambda _: MemoryBlobs(),
}


@pytest.fixture(params=HOMES)
def blobs(request: pytest.FixtureRequest, tmp_path: Path) -> Blobs:
    return HOMES[request.param](tmp_path)


async def pieces(*data: bytes, then: Exception | None = None) -> AsyncIterator[bytes]:
    for piece in data:
        yield piece
    if then is not None:
        raise then


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


async def whole(blobs: Blobs, key: str, *, start: int = 0) -> bytes:
    return b"".join([piece async for piece in blobs.read(key, start=start)])


async def test_what_comes_in_pieces_is_one_blob(blobs: Blobs) -> None:
    await blobs.put_stream("a/b/one", pieces(b"x" * MIB, b"", b"y"))
    assert await whole(blobs, "a/b/one") == b"x" * MIB + b"y"
    assert await whole(blobs, "a/b/one", start=MIB) == b"y"
    assert await whole(blobs, "a/b/one", start=2 * MIB) == b""
    assert await blobs.sizes("a/") == {"a/b/one": MIB + 1}


async def test_nothing_is_a_blob_too(blobs: Blobs) -> None:
    await blobs.put_stream("a/none", pieces())
    assert await whole(blobs, "a/none") == b""
    assert await blobs.sizes("a/") == {"a/none": 0}


async def test_it_is_there_only_when_all_of_it_has_come(blobs: Blobs) -> None:
    async def looking() -> AsyncIterator[bytes]:
        yield b"first"
        assert await blobs.sizes("a/") == {}
        yield b"last"

    await blobs.put_stream("a/one", looking())
    assert await blobs.sizes("a/") == {"a/one": 9}


async def test_what_breaks_off_leaves_nothing(blobs: Blobs, tmp_path: Path) -> None:
    with pytest.raises(ConnectionError, match="gone"):
        await blobs.put_stream("a/one", pieces(b"some", then=ConnectionError("gone")))
    assert await blobs.sizes("a/") == {}
    assert files(tmp_path) == []
    await blobs.put_stream("a/one", pieces(b"again"))
    assert await whole(blobs, "a/one") == b"again"


async def test_what_is_not_there_is_not_found(blobs: Blobs) -> None:
    with pytest.raises(NotFound):
        await whole(blobs, "a/none")


async def test_a_key_is_taken_once(blobs: Blobs) -> None:
    assert await blobs.put_new("a/one", b"first")
    assert not await blobs.put_new("a/one", b"second")
    assert await whole(blobs, "a/one") == b"first"


async def test_what_begins_so_is_removed_and_nothing_else(blobs: Blobs) -> None:
    for key in ("a/one", "a/one-more", "a/two", "b/one"):
        await blobs.put_stream(key, pieces(b"x"))
    assert await blobs.delete("a/one") == 2
    assert list(await blobs.sizes("")) == ["a/two", "b/one"]
    assert await blobs.delete("a/") == 1
    assert await blobs.delete("a/") == 0
    assert list(await blobs.sizes("")) == ["b/one"]


async def test_what_a_crash_has_left_of_an_upload_is_removed_with_its_key(tmp_path: Path) -> None:
    blobs = FileBlobs(tmp_path)
    (tmp_path / "a").mkdir()
    for name in (".one.begun", ".two.begun"):
        (tmp_path / "a" / name).write_bytes(b"half")
    assert await blobs.sizes("a/") == {}
    await blobs.delete("a/one")
    assert [path.name for path in (tmp_path / "a").iterdir()] == [".two.begun"]
