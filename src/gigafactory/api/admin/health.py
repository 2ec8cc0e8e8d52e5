"""Whether the service is there and ready."""

from typing import Literal

from litestar import get
from litestar.types import ASGIApp

from gigafactory.api.http.operation import Body, operation
from gigafactory.api.http.request import Call
from gigafactory.api.http.response import Answer, answer
from gigafactory.api.render.jobs import View

TAG = "Service"


class Health(View, frozen=True, kw_only=True):
    """It is there."""

    status: Literal["ok"] = "ok"


OK = Answer(200, b'{"status":"ok"}')


@get("/healthz", opt=operation(TAG, gives={200: Body(of=Health)}, token=False))
async def healthz() -> ASGIApp:
    """Say that the process answers."""
    return OK


class Ready(View, frozen=True, kw_only=True):
    """It can serve; `position` is how far the change feed has come."""

    status: Literal["ready"] = "ready"
    position: int


@get("/readyz", opt=operation(TAG, gives={200: Body(of=Ready)}, token=False))
async def readyz(request: Call) -> ASGIApp:
    """Say that the store answers too; 503 while it is away."""
    return answer(Ready(position=await request.coordinator.store.position()))


ROUTES = (healthz, readyz)
