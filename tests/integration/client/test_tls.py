"""TLS trust: connections accept the machine's certificate authorities and no others."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gigafactory.client.transport.async_client import AsyncClient
from gigafactory.client.transport.call import ApiCall, path
from gigafactory.client.transport.sync_client import Client
from gigafactory.domain.errors import Refused
from gigafactory.factory.forges import github
from gigafactory.system import tls as trust
from gigafactory.trackers import http as asking
from tests.services.tls import a_certificate, secured

ASK: ApiCall[Any] = ApiCall(method="GET", path=path("switches"), response_type=dict)


@pytest.fixture(autouse=True)
def forget_tls_contexts() -> Iterator[None]:
    """Clear the cached TLS contexts before and after each test."""
    trust.tls_context.cache_clear()
    yield
    trust.tls_context.cache_clear()


async def a_command(url: str) -> None:
    def ask() -> None:
        with Client(url, "token", retry_delays=()) as client:
            client.send(ASK)

    await asyncio.to_thread(ask)


async def a_factory(url: str) -> None:
    async with AsyncClient(url, "token", retry_delays=()) as client:
        await client.send(ASK)


async def a_forge(url: str) -> None:
    async with github.open_github(url, "token", "ann/notes") as hub:
        assert await hub.default_branch() == "main"


async def a_tracker(url: str) -> None:
    async with asking.open_client(url, "token", {}) as line:
        await line.request("GET", "/", "the items")


ASKING = [a_command, a_factory, a_forge, a_tracker]


@pytest.mark.parametrize("ask", ASKING)
async def test_certificate_authority_of_the_machine_is_trusted(
    ask: Callable[[str], Awaitable[None]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate = a_certificate(tmp_path)
    ours = ssl.create_default_context(cafile=str(certificate))
    monkeypatch.setattr(ssl, "create_default_context", lambda: ours)
    async with secured(certificate) as url:
        await ask(url)


@pytest.mark.parametrize("ask", ASKING)
async def test_unknown_certificate_authority_is_rejected(
    ask: Callable[[str], Awaitable[None]], tmp_path: Path
) -> None:
    async with secured(a_certificate(tmp_path)) as url:
        with pytest.raises(Refused, match=r"(?i)certificate"):
            await ask(url)


def test_bundled_authorities_are_used_on_a_machine_without_any(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nothing = SimpleNamespace(cafile=None, capath=None)
    monkeypatch.setattr(ssl, "get_default_verify_paths", lambda: nothing)
    monkeypatch.setattr(
        ssl, "create_default_context", lambda: ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    )
    assert trust.tls_context().cert_store_stats()["x509_ca"] > 100
