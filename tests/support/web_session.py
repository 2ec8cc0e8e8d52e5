"""Headless browsers: a cookie jar, and forms with their CSRF token."""

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

    async def page(self, path: str, status: int = 200) -> str:
        """Return the text of a page."""
        response = await self.http.get(path, headers={"accept": "text/html"})
        assert response.status_code == status, response.text
        return response.text

    async def csrf(self) -> str:
        """Return the CSRF token of the user's forms."""
        found = CSRF.search(await self.page("/"))
        assert found is not None
        return found[1]

    async def send(self, path: str, **fields: str) -> httpx.Response:
        """Submit a form."""
        return await self.http.post(path, data={"csrf": await self.csrf(), **fields})


@asynccontextmanager
async def an_anonymous_browser(server: Server) -> AsyncIterator[httpx.AsyncClient]:
    """Open a browser without a session."""
    async with server.browser() as http:
        yield http


@asynccontextmanager
async def a_visitor(
    server: Server, user: str = "ann", role: Role = Role.ADMIN
) -> AsyncIterator[Visitor]:
    """Sign in a user with a token."""
    secret = await server.token(user, role)
    async with an_anonymous_browser(server) as http:
        response = await http.post("/login", data={"token": secret})
        assert response.status_code == 303, response.text
        yield Visitor(http)
