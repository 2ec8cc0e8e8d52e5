"""A job's server on another port of this machine never gets a user's session."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import pytest

from tests.browser.people import Visitor

pytestmark = pytest.mark.asyncio(loop_scope="session")

GUESSES = ("127.0.0.1", "localhost", "gigafactory.localhost", "x.gigafactory.localhost")


class Preview:
    """A job's HTTP server that records the requests of browsers."""

    def __init__(self) -> None:
        self.port = 0
        self.heads: list[bytes] = []
        self.answer = b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 2\r\n"
        self.headers = b""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            self.heads.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(self.answer + self.headers + b"connection: close\r\n\r\nhi")
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    def got_session(self) -> bool:
        """Return whether any request carried the session."""
        return any(b"gf_session" in head or b"gfl_" in head for head in self.heads)


@asynccontextmanager
async def a_preview() -> AsyncIterator[Preview]:
    preview = Preview()
    async with await asyncio.start_server(preview.serve, "127.0.0.1", 0) as server:
        preview.port = server.sockets[0].getsockname()[1]
        yield preview


async def test_preview_on_another_port_does_not_get_the_session(ann: Visitor) -> None:
    async with a_preview() as preview:
        for name in GUESSES:
            await ann.page.goto(f"http://{name}:{preview.port}/")
            await ann.page.evaluate("fetch('/again', {credentials: 'include'})")
        assert len(preview.heads) >= 2 * len(GUESSES)
        assert not preview.got_session()
        # Cookies ignore ports, so jobs must not know the host name of the pages.
        await ann.page.goto(f"http://{urlsplit(ann.server.pages).hostname}:{preview.port}/")
        assert preview.got_session()
    await ann.page.goto("/")
    await ann.live()
    ann.errors.clear()


async def test_preview_is_told_nothing_about_where_the_pages_are(ann: Visitor) -> None:
    async with a_preview() as preview:
        link = f"http://127.0.0.1:{preview.port}/"
        await ann.page.evaluate(
            "url => { const a = document.createElement('a'); a.href = url; a.id = 'out';"
            " document.body.append(a); }",
            link,
        )
        await ann.page.locator("#out").evaluate("a => a.click()")
        await ann.page.wait_for_url(link)
        assert await ann.page.evaluate("document.referrer") == ""
        assert await ann.page.evaluate("window.opener === null")
        name = urlsplit(ann.server.pages).hostname or ""
        assert preview.heads
        assert not any(name.encode() in head for head in preview.heads)
    await ann.page.goto("/")
    await ann.live()
    ann.errors.clear()


async def test_preview_cannot_set_a_cookie_for_the_pages(ann: Visitor) -> None:
    async with a_preview() as preview:
        preview.headers = (
            b"set-cookie: gf_session=theirs; Domain=localhost; Path=/\r\n"
            b"set-cookie: gf_session=theirs; Domain=gigafactory.localhost; Path=/\r\n"
            b"set-cookie: gf_session=theirs; Path=/\r\n"
        )
        for name in GUESSES:
            await ann.page.goto(f"http://{name}:{preview.port}/")
    await ann.page.goto("/")
    await ann.live()
    cookies = await ann.page.context.cookies(ann.server.pages)
    assert all(cookie["value"] != "theirs" for cookie in cookies)
    ann.errors.clear()
