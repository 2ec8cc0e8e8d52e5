"""Token endpoints."""

from datetime import timedelta

from litestar import delete, get, post
from litestar.types import ASGIApp

from gigafactory.api.http.operation import Body, operation
from gigafactory.api.http.request import ApiRequest
from gigafactory.api.http.response import json_response
from gigafactory.api.render import fleet as views
from gigafactory.wire.admin import TokenDoc, TokensView, TokenView
from gigafactory.wire.fields import timestamp
from gigafactory.wire.workers import JobTokenDoc, JobTokenView

TAG = "Tokens"


@post(
    "/tokens",
    opt=operation(
        TAG,
        body=Body(of=TokenDoc, example={"user": "ann", "role": "reviewer", "products": ["notes"]}),
        responses={201: Body(of=TokenView)},
        errors=(409,),
    ),
)
async def issue_token(request: ApiRequest) -> ASGIApp:
    """Create a token for a person; its secret is shown once."""
    caller = await request.caller("tokens")
    doc = await request.json_body(TokenDoc)
    lifetime = None if doc.expires_in is None else timedelta(seconds=int(doc.expires_in))
    issued = await request.coordinator.tokens.issue(
        caller, doc.user, doc.role, doc.products, lasts=lifetime
    )
    return json_response(views.render_token(issued.token, secret=issued.secret), 201)


@get("/tokens", opt=operation(TAG, responses={200: Body(of=TokensView)}))
async def list_tokens(request: ApiRequest) -> ASGIApp:
    """List all tokens of people and factories, without secrets."""
    caller = await request.caller()
    tokens = await request.coordinator.tokens.all(caller)
    return json_response(TokensView(tokens=tuple(views.render_token(token) for token in tokens)))


@delete(
    "/tokens/{token_id:str}",
    status_code=200,
    opt=operation(TAG, responses={200: Body(of=TokenView)}, errors=(404, 409)),
)
async def revoke_token(request: ApiRequest) -> ASGIApp:
    """Revoke a token and close its open streams."""
    caller = await request.caller()
    revoked = await request.coordinator.tokens.revoke(
        caller, request.path_name("token_id", "token")
    )
    return json_response(views.render_token(revoked))


@post(
    "/jobs/{job_id:str}/token",
    opt=operation(
        TAG,
        body=Body(of=JobTokenDoc, example={"leaseEpoch": 1}),
        responses={201: Body(of=JobTokenView)},
        errors=(404, 409),
    ),
)
async def issue_job_token(request: ApiRequest) -> ASGIApp:
    """Create a token for the agent of a job; only the holder of the lease may.

    Valid until the lease ends, and only for the job's composite: to read its jobs and their logs,
    and to add children to it.
    """
    caller = await request.factory()
    epoch = (await request.json_body(JobTokenDoc)).lease_epoch
    issued = await request.coordinator.job_tokens.issue(
        caller, request.path_name("job_id", "job"), epoch
    )
    assert issued.token.expires_at is not None, "a job token expires"
    ends = timestamp(issued.token.expires_at).text
    return json_response(
        JobTokenView(job_id=issued.token.user, token=issued.secret, expires_at=ends), 201
    )


ROUTES = (issue_token, list_tokens, revoke_token, issue_job_token)
