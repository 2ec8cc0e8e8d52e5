"""Login endpoint: one-time codes for browsers."""

from litestar import post
from litestar.types import ASGIApp

from gigafactory.api.http.operation import Body, operation
from gigafactory.api.http.request import ApiRequest
from gigafactory.api.http.response import json_response
from gigafactory.wire.admin import LoginView
from gigafactory.wire.fields import timestamp

TAG = "Tokens"
CODE = {
    "code": "2fVn…",
    "url": "https://fleet.example.com/login?code=2fVn…",
    "expiresAt": "2026-05-01T12:10:00.000Z",
}


@post(
    "/logins", opt=operation(TAG, responses={201: Body(of=LoginView, example=CODE)}, errors=(409,))
)
async def make_login(request: ApiRequest) -> ASGIApp:
    """Create a one-time code that signs a browser in as the owner of this token."""
    login = await request.coordinator.logins.issue_code(await request.caller())
    view = LoginView(
        code=login.code,
        url=f"{request.pages_url}/login?code={login.code}",
        expires_at=timestamp(login.expires_at),
    )
    return json_response(view, 201)


ROUTES = (make_login,)
