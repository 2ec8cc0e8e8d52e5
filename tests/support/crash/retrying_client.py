"""Clients that repeat a request under the same key until it is answered, and record responses."""

import asyncio
import uuid
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Protocol

import httpx
import msgspec

from tests.support.api_server import API, StreamMessage, read_messages
from tests.support.crash.restarting_coordinator import CoordinatorProcess

AGAIN_AFTER_S = 0.05


class CoordinatorAddress(Protocol):
    """The current address of a coordinator."""

    @property
    def process(self) -> CoordinatorProcess:
        """Return the current process."""

    async def wait_for_restart(self, process: CoordinatorProcess) -> None:
        """Wait until a retry makes sense."""


class ReceivedResponse(msgspec.Struct, frozen=True, kw_only=True):
    """A response as the client received it."""

    who: str
    method: str
    path: str
    key: str
    status: int
    body: Any

    @property
    def ok(self) -> bool:
        """Return whether the request was accepted."""
        return self.status < 400

    def require(self, *also: int) -> Any:  # noqa: ANN401 - plain JSON values
        """Return the body; fail unless the request was accepted or has one of these statuses."""
        assert self.ok or self.status in also, self
        return self.body


class RetryingClient:
    """A client with a token; without one, the owner of the data folder."""

    def __init__(
        self,
        http: httpx.AsyncClient,
        address: CoordinatorAddress,
        responses: list[ReceivedResponse],
        who: str = "admin",
        token: str | None = None,
    ) -> None:
        self.who = who
        self.responses = responses
        self.address = address
        self.http = http
        self._token = token

    def with_token(self, who: str, token: str) -> "RetryingClient":
        """Return a client with another token on the same connection."""
        return RetryingClient(self.http, self.address, self.responses, who, token)

    def headers(self, process: CoordinatorProcess) -> dict[str, str]:
        """Return the headers of a request."""
        token = process.token if self._token is None else self._token
        return {"authorization": f"Bearer {token}", "x-product-id": "notes"}

    async def ask(
        self, method: str, path: str, sent: object = None, *, content: bytes | None = None
    ) -> ReceivedResponse:
        """Send one request as often as necessary and return its response."""
        key = uuid.uuid4().hex
        body = content if sent is None else msgspec.json.encode(sent)
        kind = "application/octet-stream" if sent is None else "application/json"
        while True:
            process = self.address.process
            headers = self.headers(process) | {"idempotency-key": key, "content-type": kind}
            try:
                http_response = await self.http.request(
                    method, process.url + API + path, content=body, headers=headers
                )
            except httpx.TransportError:
                await self.address.wait_for_restart(process)
                continue
            response = ReceivedResponse(
                who=self.who,
                method=method,
                path=path,
                key=key,
                status=http_response.status_code,
                body=http_response.json() if http_response.content else None,
            )
            self.responses.append(response)
            if response.status != httpx.codes.SERVICE_UNAVAILABLE:
                return response
            await asyncio.sleep(AGAIN_AFTER_S)

    async def job(self, job_id: str) -> dict[str, Any]:
        """Return a job."""
        found: dict[str, Any] = (await self.ask("GET", f"/jobs/{job_id}")).require()
        return found

    async def submit(self, name: str, **manifest: object) -> str:
        """Submit a job and return its id."""
        request = {"manifest": {"name": name, **manifest}, "body": f"# {name}"}
        job_id: str = (await self.ask("POST", "/jobs", request)).require()["id"]
        return job_id

    async def act(self, job_id: str, action: str, **wish: object) -> dict[str, Any]:
        """Perform an action on a job."""
        response = await self.ask("POST", f"/jobs/{job_id}/actions/{action}", wish)
        job: dict[str, Any] = response.require()
        return job


class Factory(RetryingClient):
    """A factory that uses the API."""

    slots = 4

    @property
    def identity(self) -> dict[str, str]:
        """Return the factory's id and instance."""
        return {"factoryId": self.who, "instanceId": f"{self.who}-a"}

    async def beat(self, *running: str) -> Any:  # noqa: ANN401 - plain JSON values
        """Send a heartbeat."""
        status = {
            "capabilities": ["os:mac"],
            "engines": {"claude": {"version": "2.1.0", "seats": self.slots}},
            "slots": self.slots,
            "running": running,
        }
        return (await self.ask("POST", "/factories/heartbeat", self.identity | status)).require()

    async def granted(self, *, wait_s: float = 0.5) -> dict[str, Any]:
        """Claim until there is a grant."""
        while True:
            http_response = await self.ask("POST", "/claim", self.identity | {"wait": wait_s})
            if http_response.require() is not None:
                grant: dict[str, Any] = http_response.body
                return grant
            # The coordinator may have died before it stored this factory's heartbeat.
            await self.beat()

    async def report(self, grant: dict[str, Any], **status: object) -> ReceivedResponse:
        """Report on a job under the epoch of its grant."""
        sent = {"leaseEpoch": grant["leaseEpoch"], **status}
        return await self.ask("PATCH", f"/jobs/{grant['job']['id']}", sent)

    async def build(self, grant: dict[str, Any]) -> dict[str, Any]:
        """Run a job: start, checkpoint, end."""
        job_id, epoch = grant["job"]["id"], grant["leaseEpoch"]
        (await self.report(grant, stage="building")).require()
        checkpoint = {"branch": f"aq/wip/{job_id}/{epoch}", "commit": f"c{epoch}"}
        response = await self.report(grant, stage="review", checkpoint=checkpoint)
        job: dict[str, Any] = response.require()
        return job

    async def accept(self, offer: dict[str, Any], **more: str) -> ReceivedResponse:
        """Accept or decline an offer."""
        request = self.identity | {"jobId": offer["jobId"], "offerId": offer["offerId"]}
        return await self.ask("POST", "/accept", request | more)

    async def messages(self) -> AsyncGenerator[StreamMessage]:
        """Yield the messages of the offer stream, across connections."""
        while True:
            # Offers go only to live factories, and a restarted coordinator does not know yet that
            # this one is alive.
            await self.beat()
            process = self.address.process
            url = f"{process.url}{API}/factories/{self.who}/offers"
            try:
                async with self.http.stream("GET", url, headers=self.headers(process)) as response:
                    if response.status_code == httpx.codes.OK:
                        async for message in read_messages(response):
                            yield message
            except httpx.TransportError:
                pass
            await self.address.wait_for_restart(process)


async def enroll_factory(admin: RetryingClient, factory_id: str) -> Factory:
    """Enroll a factory and send its first heartbeat."""
    anonymous = admin.with_token("nobody", "none")
    while True:
        invited = (await admin.ask("POST", "/enrollments", {"products": ["*"]})).require()
        request = {"secret": invited["secret"], "factoryId": factory_id}
        enrolled = await anonymous.ask("POST", "/factories/enroll", request)
        # A secret is shown once: a client that lost the response starts again.
        if enrolled.require(401, 409) and enrolled.ok:
            break
        (await admin.ask("DELETE", f"/factories/{factory_id}")).require(404)
    factory = Factory(
        admin.http, admin.address, admin.responses, factory_id, enrolled.body["token"]
    )
    await factory.beat()
    return factory


@asynccontextmanager
async def admin_client(address: CoordinatorAddress) -> AsyncIterator[RetryingClient]:
    """Connect to a coordinator as its owner for this block."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=100)
    async with httpx.AsyncClient(timeout=60, limits=limits) as http:
        yield RetryingClient(http, address, [])
