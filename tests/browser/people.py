"""Users of the web pages."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from playwright.async_api import Browser, ConsoleMessage, Page

from gigafactory.domain.tenancy.access import Role
from tests.support.api_server import Server

LIVE = '#live[data-state="live"]'
LOST = '#live[data-state="lost"]'
AWAY = '#live[data-state="away"]'


class Visitor:
    """A user with an open tab."""

    def __init__(self, page: Page, server: Server) -> None:
        self.page = page
        self.server = server
        self.errors: list[str] = []
        page.on("console", self._heard)
        page.on("pageerror", lambda error: self.errors.append(str(error)))

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.errors.append(f"{message.text} {message.location.get('url', '')}")

    @staticmethod
    @asynccontextmanager
    async def signed_in(
        browser: Browser,
        server: Server,
        user: str,
        role: Role = Role.ADMIN,
        **look: Any,  # noqa: ANN401 - how the browser is set up
    ) -> AsyncIterator["Visitor"]:
        """Sign in with a token and wait until the page is live."""
        secret = await server.token(user, role)
        context = await browser.new_context(base_url=server.pages, **look)
        try:
            visitor = Visitor(await context.new_page(), server)
            await visitor.page.goto("/login")
            await visitor.page.get_by_label("Your token").fill(secret)
            await visitor.page.get_by_role("button", name="Sign in").click()
            await visitor.live()
            yield visitor
        finally:
            await context.close()

    @staticmethod
    @asynccontextmanager
    async def another(same: "Visitor") -> AsyncIterator["Visitor"]:
        """Open another tab of the user."""
        page = await same.page.context.new_page()
        try:
            yield Visitor(page, same.server)
        finally:
            await page.close()

    async def live(self) -> None:
        """Wait until the page is live."""
        await self.page.wait_for_selector(LIVE)

    async def open(self, place: str) -> None:
        """Open a page and wait until it is live."""
        await self.page.goto(place)
        await self.live()

    async def sees(self, text: str) -> None:
        """Wait until a text is visible."""
        await self.page.get_by_text(text).first.wait_for()

    async def clicks(self, button: str) -> None:
        """Click a button by its name."""
        await self.page.get_by_role("button", name=button, exact=True).first.click()
