"""Redirects of a tracker are followed within its host, and never to another host."""

import httpx
import pytest

from gigafactory.domain.errors import TrackerUnavailable
from gigafactory.trackers.http import open_client


class Redirecting(httpx.AsyncBaseTransport):
    """A transport that redirects the first request and records all URLs."""

    def __init__(self, location: str) -> None:
        self.location = location
        self.asked: list[str] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(str(request.url))
        if len(self.asked) == 1:
            return httpx.Response(301, headers={"location": self.location})
        return httpx.Response(200, json={})


async def test_redirect_within_the_host_is_followed() -> None:
    transport = Redirecting("https://tracker.example/renamed")
    async with open_client("https://tracker.example", "t", {}, transport) as client:
        assert (await client.request("GET", "/items", "read")).status_code == 200
    assert transport.asked[1] == "https://tracker.example/renamed"


@pytest.mark.parametrize(
    "location", ["http://127.0.0.1:8790/x", "//169.254.169.254/x", "https://tracker.example:1/x"]
)
async def test_redirect_to_another_host_is_refused(location: str) -> None:
    transport = Redirecting(location)
    async with open_client("https://tracker.example", "t", {}, transport) as client:
        with pytest.raises(TrackerUnavailable, match="redirects to another host"):
            await client.request("GET", "/items", "read")
    assert len(transport.asked) == 1
