"""Clients that ask until they are answered, always under the same key, and note what was told."""

import asyncio
import uuid
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Protocol

import httpx
import msgspec

from tests.support.api_server import API, Told, told
from tests.support.crash.restarting_coordinator import Life

AGAIN_AFTER_S = 0.05


class Place(Protocol):
    """Where a coordinator answers now."""

    @property
    def life(self) -> Life:
        """The process to ask."""

    async def after(self, life: Life) -> None:
        """Come back when it is worth asking again."""


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """A response as the client received it."""

    who: str
    method: str
    path: str
    key: str
    status: int
    body: Any

    @property
    def ok(self) -> bool:
        """Whether it was a yes."""
        return self.status < 400

    def require(self, *also: int) -> Any:  # noqa: ANN401 - plain JSON values
        """What was told, which must be a yes, or one of these."""
        assert self.ok or self.status in also, self
        return self.body


class Caller:
    """A client with a token; without one, the owner of the data folder."""

    def __init__(
        self,
        http: httpx.AsyncClient,
        place: Place,
        notes: list[Note],
        who: str = "admin",
        token: str | None = None,
    ) -> None:
        self.who = who
        self.notes = notes
        self.place = place
        self.http = http
        self._token = token

    def known_as(self, who: str, token: str) -> "Caller":
        """Another client on the same connection."""
        return Caller(self.http, self.place, self.notes, who, token)

    def headers(self, life: Life) -> dict[str, str]:
        """Who asks, and about what."""
        token = life.token if self._token is None else self._token
        return {"authorization": f"Bearer {token}", "x-product-id": "notes"}

    async def ask(
        self, method: str, path: str, sent: object = None, *, content: bytes | None = None
    ) -> Note:
        """The answer to one request, however often it has to be sent."""
        key = uuid.uuid4().hex
        body = content if sent is None else msgspec.json.encode(sent)
        kind = "application/octet-stream" if sent is None else "application/json"
        while True:
            life = self.place.life
            headers = self.headers(life) | {"idempotency-key": key, "content-type": kind}
            try:
                answer = await self.http.request(
                    method, life.url + API + path, content=body, headers=headers
                )
            except httpx.TransportError:
                await self.place.after(life)
                continue
            note = Note(
                who=self.who,
                method=method,
                path=path,
                key=key,
                status=answer.status_code,
                body=answer.json() if answer.content else None,
            )
            self.notes.append(note)
            if note.status != httpx.codes.SERVICE_UNAVAILABLE:
                return note
            await asyncio.sleep(AGAIN_AFTER_S)

    async def job(self, job_id: str) -> dict[str, Any]:
        """One job as it is now."""
        found: dict[str, Any] = (await self.ask("GET", f"/jobs/{job_id}")).require()
        return found

    async def submit(self, name: str, **manifest: object) -> str:
        """Hand in a job; its id."""
        asked = {"manifest": {"name": name, **manifest}, "body": f"# {name}"}
        job_id: str = (await self.ask("POST", "/jobs", asked)).require()["id"]
        return job_id

    async def act(self, job_id: str, action: str, **wish: object) -> dict[str, Any]:
        """Do something to a job."""
        done = await self.ask("POST", f"/jobs/{job_id}/actions/{action}", wish)
        job: dict[str, Any] = done.require()
        return job


class Factory(Caller):
    """A worker of the fleet."""

    slots = 4

    @property
    def mine(self) -> dict[str, str]:
        """Who it is, and which process of it."""
        return {"factoryId": self.who, "instanceId": f"{self.who}-a"}

    async def beat(self, *running: str) -> Any:  # noqa: ANN401 - plain JSON values
        """Say what it has and runs."""
        says = {
            "capabilities": ["os:mac"],
            "engines": {"claude": {"version": "2.1.0", "seats": self.slots}},
            "slots": self.slots,
            "running": running,
        }
        return (await self.ask("POST", "/factories/heartbeat", self.mine | says)).require()

    async def granted(self, *, wait_s: float = 0.5) -> dict[str, Any]:
        """The next job, however long that takes."""
        while True:
            answer = await self.ask("POST", "/claim", self.mine | {"wait": wait_s})
            if answer.require() is not None:
                grant: dict[str, Any] = answer.body
                return grant
            # The coordinator may have died before it wrote down that this factory lives.
            await self.beat()

    async def report(self, grant: dict[str, Any], **says: object) -> Note:
        """Report on a job under the epoch of its grant."""
        sent = {"leaseEpoch": grant["leaseEpoch"], **says}
        return await self.ask("PATCH", f"/jobs/{grant['job']['id']}", sent)

    async def build(self, grant: dict[str, Any]) -> dict[str, Any]:
        """Do a whole run: begin, checkpoint, end."""
        job_id, epoch = grant["job"]["id"], grant["leaseEpoch"]
        (await self.report(grant, stage="building")).require()
        checkpoint = {"branch": f"aq/wip/{job_id}/{epoch}", "commit": f"c{epoch}"}
        done = await self.report(grant, stage="review", checkpoint=checkpoint)
        job: dict[str, Any] = done.require()
        return job

    async def accept(self, offer: dict[str, Any], **more: str) -> Note:
        """Take an offer, or decline it."""
        asked = self.mine | {"jobId": offer["jobId"], "offerId": offer["offerId"]}
        return await self.ask("POST", "/accept", asked | more)

    async def messages(self) -> AsyncGenerator[Told]:
        """What its offer stream says, over all connections that this takes."""
        while True:
            # Offers go only to live factories, and a restarted coordinator does not know yet that
            # this one is alive.
            await self.beat()
            life = self.place.life
            url = f"{life.url}{API}/factories/{self.who}/offers"
            try:
                async with self.http.stream("GET", url, headers=self.headers(life)) as response:
                    if response.status_code == httpx.codes.OK:
                        async for message in told(response):
                            yield message
            except httpx.TransportError:
                pass
            await self.place.after(life)


async def enrolled(admin: Caller, factory_id: str) -> Factory:
    """A new factory, which has sent its first heartbeat."""
    anonymous = admin.known_as("nobody", "none")
    while True:
        invited = (await admin.ask("POST", "/enrollments", {"products": ["*"]})).require()
        asked = {"secret": invited["secret"], "factoryId": factory_id}
        joined = await anonymous.ask("POST", "/factories/enroll", asked)
        # A secret is shown once: a client that lost the response starts again.
        if joined.require(401, 409) and joined.ok:
            break
        (await admin.ask("DELETE", f"/factories/{factory_id}")).require(404)
    factory = Factory(admin.http, admin.place, admin.notes, factory_id, joined.body["token"])
    await factory.beat()
    return factory


@asynccontextmanager
async def calling(place: Place) -> AsyncIterator[Caller]:
    """The owner's line to a coordinator, for this block."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=100)
    async with httpx.AsyncClient(timeout=60, limits=limits) as http:
        yield Caller(http, place, [])
