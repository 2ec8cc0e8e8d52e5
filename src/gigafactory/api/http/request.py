"""The request class of the API's handlers."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

from litestar import Request
from litestar.datastructures import State

from gigafactory.api.http.authn import Authenticator
from gigafactory.api.http.decoding import decode_json, decode_query
from gigafactory.api.http.hosts import ServedHosts
from gigafactory.api.http.limits import REQUEST_BYTES_MAX, UNKNOWN_BODY_MAX_S, UnknownBodies
from gigafactory.api.http.sse import OpenStreams, TokenStreams
from gigafactory.coordinator.coordinator import Coordinator
from gigafactory.domain.errors import Forbidden, Malformed, NotFound, TooLarge
from gigafactory.domain.tenancy.access import OWN_PRODUCTS, Caller

Value = TypeVar("Value")

PARSED_INLINE_BYTES_MAX = 32 * 1024
"""A thread takes longer to start than most bodies of this size take to parse."""

KNOWN = "aq_known"
"""Key in the ASGI scope's state of a request whose sender was authenticated."""

_REFERENCE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")


class ApiRequest(Request[Any, Any, State]):
    """An API request; reads body and headers itself, several times faster than Litestar."""

    @property
    def coordinator(self) -> Coordinator:
        """The coordinator."""
        coordinator: Coordinator = self.app.state.coordinator
        return coordinator

    @property
    def authn(self) -> Authenticator:
        """The authenticator."""
        authn: Authenticator = self.app.state.authn
        return authn

    @property
    def hosts(self) -> ServedHosts:
        """The served host names."""
        hosts: ServedHosts = self.app.state.hosts
        return hosts

    @property
    def is_encrypted(self) -> bool:
        """Whether the browser's connection is encrypted, as far as we know."""
        if self.hosts.public_url is not None:
            return self.hosts.public_url.startswith("https://")
        # A client can forge this header, but that only makes its own cookie stricter.
        proxied = self.header(b"x-forwarded-proto") == b"https"
        return proxied or self.scope["scheme"] == "https"

    @property
    def pages_url(self) -> str:
        """The URL of the pages, for the caller's browser."""
        return self.hosts.pages_url(*self._scheme_and_host())

    @property
    def api_url(self) -> str:
        """The URL of this coordinator for programs."""
        return self.hosts.api_url(*self._scheme_and_host())

    def _scheme_and_host(self) -> tuple[str, str]:
        scheme = "https" if self.is_encrypted else "http"
        return scheme, (self.header(b"host") or b"").decode("latin-1")

    def header(self, name: bytes) -> bytes | None:
        """Return a header by its lower-case name."""
        return next((value for key, value in self.scope["headers"] if key == name), None)

    @property
    def address(self) -> str:
        """The client's address."""
        client = self.scope.get("client")
        return client[0] if client else "unknown"

    def streams_of(self, caller: Caller) -> TokenStreams:
        """Return where to register a stream of the caller.

        Raises TooManyRequests if its token has too many open ones.
        """
        streams: OpenStreams = self.app.state.streams
        return streams.of(caller)

    async def caller(self, verb: str | None = None) -> Caller:
        """Return the caller; refuse an agent with a job token, and a role that lacks the verb.

        A handler with a body passes its verb: what a caller may not do costs no parsing.
        Raises Unauthenticated, Forbidden, TooManyRequests, Malformed, Invalid.
        """
        caller = await self.caller_or_agent()
        if caller.agent_scope is not None:
            raise Forbidden(
                f"{caller.actor} has a job token, which is limited to the job's composite:"
                " it can read its jobs and their logs, and add children to it"
            )
        if verb is not None:
            caller.require(verb, OWN_PRODUCTS)
        return caller

    async def factory(self) -> Caller:
        """Return the factory that sends a worker's request; refuse everybody else.

        Raises Unauthenticated, Forbidden, TooManyRequests, Malformed, Invalid.
        """
        caller = await self.caller()
        if caller.factory_id is None:
            raise Forbidden(
                f"{caller.actor} is not a factory; this is for the worker that holds the lease"
            )
        return caller

    async def caller_or_agent(self) -> Caller:
        """Return the caller; an agent may access its own job and composite only.

        Raises Unauthenticated, Forbidden, TooManyRequests, Malformed, Invalid.
        """
        caller = await self.authn.caller(dict(self.scope["headers"]), self.address)
        self.mark_known()
        return caller

    def mark_known(self) -> None:
        """Mark the connection as that of a client who is known."""
        self.scope["state"][KNOWN] = True

    def path_name(self, parameter: str, kind: str) -> str:
        """Return a name or id from the path.

        Raises NotFound for an invalid one.
        """
        reference: str = self.scope["path_params"][parameter]
        if not _REFERENCE.fullmatch(reference) or ".." in reference:
            raise NotFound(kind, reference[:100])
        return reference

    def query(self, of: type[Value]) -> Value:
        """Decode the query to a type.

        Raises Invalid.
        """
        return decode_query(self.scope["query_string"], of)

    @property
    def content_length(self) -> int | None:
        """The Content-Length; None if not given."""
        length = self.header(b"content-length")
        return int(length) if length is not None and length.isdigit() else None

    async def body_chunks(self) -> AsyncIterator[bytes]:
        """Stream the body; the consumer enforces its size limit.

        Raises Malformed when the client disconnects before the end.
        """
        more = True
        while more:
            message = await self.receive()
            if message["type"] != "http.request":
                raise Malformed("the client disconnected before its request was complete")
            if piece := message.get("body", b""):
                yield piece
            more = message.get("more_body", False)

    async def read_body(self, bytes_max: int) -> bytes:
        """Read the whole body.

        Raises TooLarge for more than `bytes_max`, without reading it if Content-Length says so;
        Malformed when the client disconnects before the end.
        """
        if self.content_length is not None and self.content_length > bytes_max:
            raise _too_large(bytes_max)
        pieces: list[bytes] = []
        size = 0
        while True:
            message = await self.receive()
            if message["type"] != "http.request":
                raise Malformed("the client disconnected before its request was complete")
            piece = message.get("body", b"")
            size += len(piece)
            if size > bytes_max:
                raise _too_large(bytes_max)
            if not message.get("more_body", False):
                return b"".join((*pieces, piece)) if pieces else piece
            pieces.append(piece)

    async def read_unknown_body(self, bytes_max: int) -> bytes:
        """Read the body of a client that has no token, within what all of these may take.

        Raises Unavailable when they take too much, Malformed for one that takes too long, and what
        `read_body` raises.
        """
        bodies: UnknownBodies = self.app.state.unknown_bodies
        announced = self.content_length
        size = bytes_max if announced is None else min(announced, bytes_max)
        with bodies.reserve(size):
            try:
                async with asyncio.timeout(UNKNOWN_BODY_MAX_S):
                    return await self.read_body(bytes_max)
            except TimeoutError:
                raise Malformed(
                    f"the request body did not arrive within {UNKNOWN_BODY_MAX_S:g} s"
                ) from None

    async def json_body(self, of: type[Value], *, bytes_max: int = REQUEST_BYTES_MAX) -> Value:
        """Decode the JSON body to a type.

        Raises Malformed, Invalid, TooLarge.
        """
        body = await self.read_body(bytes_max)
        if len(body) <= PARSED_INLINE_BYTES_MAX:
            return decode_json(body, of)
        return await asyncio.to_thread(decode_json, body, of)

    async def parse_body(self, parse: Callable[[bytes], Value], *, bytes_max: int) -> Value:
        """Read and parse the body, a large one in a thread: other requests are served meanwhile.

        Raises TooLarge, Malformed, and what `parse` raises.
        """
        return await parse_aside(parse, await self.read_body(bytes_max))

    async def until_disconnect(self, work: Awaitable[Value]) -> Value:
        """Return the result of long work; cancel it when the client disconnects.

        Raises Malformed in that case: no client is left to answer.
        """
        task = asyncio.ensure_future(work)
        disconnect = asyncio.ensure_future(self._wait_for_disconnect())
        try:
            await asyncio.wait({task, disconnect}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            raise Malformed("the client disconnected before the response")
        finally:
            disconnect.cancel()
            task.cancel()
            await asyncio.gather(task, disconnect, return_exceptions=True)

    async def _wait_for_disconnect(self) -> None:
        while (await self.receive())["type"] != "http.disconnect":
            pass


async def parse_aside(parse: Callable[[bytes], Value], data: bytes) -> Value:
    """Return `parse(data)`, in a thread if it may take long.

    Raises what `parse` raises.
    """
    if len(data) <= PARSED_INLINE_BYTES_MAX:
        return parse(data)
    return await asyncio.to_thread(parse, data)


def _too_large(bytes_max: int) -> TooLarge:
    return TooLarge(
        f"the request body may have at most {bytes_max} bytes; send less, or several requests"
    )
