"""Factory endpoints: enroll, list, drain, tokens, offer stream."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import msgspec
from litestar import delete, get, post
from litestar.types import ASGIApp

from gigafactory.api.http import sse
from gigafactory.api.http.decoding import decode_json
from gigafactory.api.http.examples import JOB_ID
from gigafactory.api.http.limits import ENTRY_BYTES_MAX
from gigafactory.api.http.operation import Body, operation
from gigafactory.api.http.request import ApiRequest
from gigafactory.api.http.response import NO_CONTENT, json_response
from gigafactory.api.render import fleet as views
from gigafactory.api.render.jobs import render_job
from gigafactory.coordinator.coordinator import Coordinator
from gigafactory.coordinator.core.ports import Message
from gigafactory.domain.fleet.factory import Factory, health_score, is_online
from gigafactory.domain.tenancy.access import OWN_PRODUCTS, Caller
from gigafactory.wire.fleet import (
    DrainDoc,
    EnrollDoc,
    FactoriesView,
    FactoryView,
    Membership,
    RevokedView,
)

TAG = "Factories"


@post(
    "/factories/enroll",
    opt=operation(
        TAG,
        body=Body(of=EnrollDoc, example={"secret": "gfe_…", "factoryId": "mac-1", "os": "mac"}),
        responses={201: Body(of=Membership, example={"factoryId": "mac-1", "token": "gff_…"})},
        errors=(401, 409),
        token=False,
    ),
)
async def enroll(request: ApiRequest) -> ASGIApp:
    """Exchange an enrollment secret for the factory's token; it is shown once."""
    doc = decode_json(await request.read_unknown_body(ENTRY_BYTES_MAX), EnrollDoc)
    with request.authn.counting_failures(request.address):
        member = await request.coordinator.enrolment.enroll(
            doc.secret, doc.factory_id, os=doc.os, labels=doc.labels
        )
    return json_response(member, 201)


@get("/factories", opt=operation(TAG, responses={200: Body(of=FactoriesView)}))
async def list_factories(request: ApiRequest) -> ASGIApp:
    """List the factories that the caller may see, by id."""
    caller = await request.caller()
    factories = await request.coordinator.factories.all(caller)
    rendered = tuple(_render(request.coordinator, caller, factory) for factory in factories)
    return json_response(FactoriesView(factories=rendered))


@get(
    "/factories/{factory_id:str}",
    opt=operation(TAG, responses={200: Body(of=FactoryView)}, errors=(404,)),
)
async def get_factory(request: ApiRequest) -> ASGIApp:
    """Return one factory with the jobs it holds."""
    caller = await request.caller()
    factory_id = request.path_name("factory_id", "factory")
    factories = request.coordinator.factories
    factory = await factories.get(caller, factory_id)
    leased = await factories.leased_jobs(caller, factory_id)
    rendered = _render(request.coordinator, caller, factory)
    visible = [render_job(each) for each in leased if caller.can_see(each.product_id)]
    return json_response(msgspec.structs.replace(rendered, jobs=visible))


def _render(coordinator: Coordinator, caller: Caller, factory: Factory) -> FactoryView:
    now = coordinator.clock.now()
    factory = coordinator.factories.visible_part(caller, factory)
    vitals = coordinator.factories.vitals(factory.id)
    health = health_score(vitals, now) if vitals else 0.0
    return views.render_factory(factory, vitals, online=is_online(vitals, now), health=health)


@delete(
    "/factories/{factory_id:str}",
    status_code=200,
    opt=operation(TAG, responses={204: None}, errors=(404, 409)),
)
async def deregister_factory(request: ApiRequest) -> ASGIApp:
    """Remove a factory and its tokens; its leases expire."""
    caller = await request.caller()
    await request.coordinator.enrolment.deregister(
        caller, request.path_name("factory_id", "factory")
    )
    return NO_CONTENT


@post(
    "/factories/{factory_id:str}/drain",
    opt=operation(
        TAG,
        body=Body(of=DrainDoc, example={"draining": True}),
        responses={200: Body(of=FactoryView)},
        errors=(404, 409),
        optional_body=True,
    ),
)
async def drain_factory(request: ApiRequest) -> ASGIApp:
    """Drain a factory; with `"draining": false`, let it take work again."""
    caller = await request.caller()
    if caller.factory_id is None:
        caller.require("drain", OWN_PRODUCTS)
    doc = await request.json_body(DrainDoc)
    factory = await request.coordinator.factories.drain(
        caller, request.path_name("factory_id", "factory"), draining=doc.draining
    )
    return json_response(_render(request.coordinator, caller, factory))


@post(
    "/factories/{factory_id:str}/token/rotate",
    opt=operation(TAG, responses={200: Body(of=Membership)}, errors=(404, 409)),
)
async def rotate_factory_token(request: ApiRequest) -> ASGIApp:
    """Rotate a factory's token; the new one is shown once, the old one ends."""
    caller = await request.caller()
    member = await request.coordinator.enrolment.rotate(
        caller, request.path_name("factory_id", "factory")
    )
    return json_response(member)


@post(
    "/factories/{factory_id:str}/token/revoke",
    opt=operation(TAG, responses={200: Body(of=RevokedView)}, errors=(404, 409)),
)
async def revoke_factory_token(request: ApiRequest) -> ASGIApp:
    """Revoke a factory's token and close its open streams."""
    caller = await request.caller()
    factory_id = request.path_name("factory_id", "factory")
    await request.coordinator.enrolment.revoke(caller, factory_id)
    return json_response(RevokedView(factory_id=factory_id))


@get(
    "/factories/{factory_id:str}/offers",
    opt=operation(
        TAG,
        responses={
            200: Body(
                media_type=sse.MEDIA_TYPE,
                description="`event: offer` and `event: command`, while the connection is open",
                example=f'event: offer\ndata: {{"offerId": "{JOB_ID}.1", "jobId": "{JOB_ID}"}}\n\n',
            )
        },
        errors=(404, 409),
    ),
)
async def stream_offers(request: ApiRequest) -> ASGIApp:
    """Receive offers and commands as server-sent events.

    Pending ones come first. The stream ends when the factory's token is revoked.
    """
    caller = await request.caller()
    factory_id = request.path_name("factory_id", "factory")
    streams = request.streams_of(caller)
    stack = AsyncExitStack()
    messages = await stack.enter_async_context(
        request.coordinator.offer_streams.stream(caller, factory_id)
    )
    pieces = _offers(request.coordinator, caller, messages)
    return sse.EventStream(pieces, streams, then=stack.aclose)


async def _offers(
    coordinator: Coordinator, caller: Caller, messages: AsyncIterator[Message]
) -> AsyncIterator[bytes]:
    yield b": open\n\n"
    async for message in messages:
        yield sse.frame(message.data, event=message.data.event)
    if not await coordinator.tokens.is_valid(caller):
        yield sse.frame({"reason": "revoked"}, event="revoked")
    else:
        yield sse.frame({"reason": "dropped"}, event="dropped")


ROUTES = (
    enroll,
    list_factories,
    get_factory,
    deregister_factory,
    drain_factory,
    rotate_factory_token,
    revoke_factory_token,
    stream_offers,
)
