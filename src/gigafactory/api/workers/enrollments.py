"""Enrollment endpoints: one-time secrets for new factories."""

from datetime import timedelta

from litestar import delete, get, post
from litestar.types import ASGIApp

from gigafactory.api.http.examples import JOB_ID, NOON
from gigafactory.api.http.operation import Body, operation
from gigafactory.api.http.request import ApiRequest
from gigafactory.api.http.response import NO_CONTENT, json_response
from gigafactory.api.render import fleet as views
from gigafactory.domain.manifest.capability import parse_advertised
from gigafactory.wire.fields import timestamp
from gigafactory.wire.fleet import EnrollmentsView, InvitationView, InviteDoc

TAG = "Enrollments"


@post(
    "/enrollments",
    opt=operation(
        TAG,
        body=Body(of=InviteDoc, example={"products": ["notes"], "expiresIn": 3600}),
        responses={
            201: Body(
                of=InvitationView, example={"id": JOB_ID, "secret": "gfe_…", "expiresAt": NOON}
            )
        },
        errors=(409,),
    ),
)
async def invite(request: ApiRequest) -> ASGIApp:
    """Create a one-time secret to enroll one machine; it is shown once."""
    caller = await request.caller("enroll")
    doc = await request.json_body(InviteDoc)
    capabilities = doc.capabilities
    if capabilities is not None:
        parse_advertised(capabilities, subject="the enrollment")
    invitation = await request.coordinator.enrolment.invite(
        caller,
        doc.products,
        capabilities=capabilities,
        lasts=timedelta(seconds=int(doc.expires_in)),
    )
    return json_response(
        InvitationView(
            id=invitation.id,
            secret=invitation.secret,
            expires_at=timestamp(invitation.expires_at),
        ),
        201,
    )


@get("/enrollments", opt=operation(TAG, responses={200: Body(of=EnrollmentsView)}))
async def list_enrollments(request: ApiRequest) -> ASGIApp:
    """List enrollments, without their secrets."""
    caller = await request.caller()
    enrollments = await request.coordinator.enrolment.invitations(caller)
    return json_response(
        EnrollmentsView(enrollments=tuple(views.render_enrollment(each) for each in enrollments))
    )


@delete(
    "/enrollments/{enrollment_id:str}",
    status_code=200,
    opt=operation(TAG, responses={204: None}, errors=(404, 409)),
)
async def withdraw_enrollment(request: ApiRequest) -> ASGIApp:
    """Withdraw an enrollment."""
    caller = await request.caller()
    await request.coordinator.enrolment.withdraw(
        caller, request.path_name("enrollment_id", "enrollment")
    )
    return NO_CONTENT


ROUTES = (invite, list_enrollments, withdraw_enrollment)
