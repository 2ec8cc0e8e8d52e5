"""Whether the service is there and ready."""

from litestar import get
from litestar.types import ASGIApp

from gigafactory.api.http.operation import Body, operation
from gigafactory.api.http.request import Call
from gigafactory.api.http.response import Answer, answer
from gigafactory.wire.admin import Health, Ready

TAG = "Service"


OK = Answer(200, b'{"status":"ok"}')


@get("/healthz", opt=operation(TAG, gives={200: Body(of=Health)}, token=False))
async def healthz() -> ASGIApp:
    """Say that the process answers."""
    return OK


@get("/readyz", opt=operation(TAG, gives={200: Body(of=Ready)}, token=False))
async def readyz(request: Call) -> ASGIApp:
    """Say that the store answers too; 503 while it is away."""
    return answer(Ready(position=await request.coordinator.store.position()))


ROUTES = (healthz, readyz)
