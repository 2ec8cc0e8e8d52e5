"""Browsers without a window: a cookie jar, and forms that are filled in as they came."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx

from gigafactory.domain.tenancy.access import Role
from tests.support.api_server import Server

CSRF = re.compile(r'name="csrf" value="([0-9a-f]+)"')


class Visitor:
    """A signed-in user."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self.http = http

    async def page(self, place: str, status: int = 200) -> str:
        """The text of a page."""
        answer = await self.http.get(place, headers={"accept": "text/html"})
        assert answer.status_code == status, answer.text
        return answer.text

    async def csrf(self) -> str:
        """What the forms of this visitor carry."""
        found = CSRF.search(await self.page("/"))
        assert found is not None
        return found[1]

    async def send(self, place: str, **fields: str) -> httpx.Response:
        """Send a form of one of our pages."""
        return await self.http.post(place, data={"csrf": await self.csrf(), **fields})


@asynccontextmanager
async def a_stranger(server: Server) -> AsyncIterator[httpx.AsyncClient]:
    """A browser without a session."""
    async with server.browser() as http:
        yield http


@asynccontextmanager
async def a_visitor(
    server: Server, user: str = "ann", role: Role = Role.ADMIN
) -> AsyncIterator[Visitor]:
    """A user who signed in with a token."""
    secret = await server.token(user, role)
    async with a_stranger(server) as http:
        answer = await http.post("/login", data={"token": secret})
        assert answer.status_code == 303, answer.text
        yield Visitor(http)
