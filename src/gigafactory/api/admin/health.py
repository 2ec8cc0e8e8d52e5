"""Health endpoints."""

from litestar import get
from litestar.types import ASGIApp

from gigafactory.api.http.operation import Body, operation
from gigafactory.api.http.request import ApiRequest
from gigafactory.api.http.response import HttpResponse, json_response
from gigafactory.wire.admin import HealthView, ReadyView

TAG = "Service"


OK = HttpResponse(200, b'{"status":"ok"}')


@get("/healthz", opt=operation(TAG, responses={200: Body(of=HealthView)}, token=False))
async def healthz() -> ASGIApp:
    """Report that the process is alive."""
    return OK


@get("/readyz", opt=operation(TAG, responses={200: Body(of=ReadyView)}, token=False))
async def readyz(request: ApiRequest) -> ASGIApp:
    """Report that the store answers too; 503 while it does not."""
    store = request.coordinator.store
    position = await store.position()
    return json_response(ReadyView(position=position, rollbacks=store.rollbacks))


ROUTES = (healthz, readyz)
