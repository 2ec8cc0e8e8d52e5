"""Profile endpoints: the catalogue and each product's versions."""

from typing import Any

from litestar import get, post
from litestar.types import ASGIApp

from gigafactory.api.http.decoding import decode_document
from gigafactory.api.http.limits import REQUEST_BYTES_MAX
from gigafactory.api.http.operation import Body, operation
from gigafactory.api.http.request import ApiRequest
from gigafactory.api.http.response import json_response
from gigafactory.domain.errors import NotFound
from gigafactory.domain.manifest.encoder import profile_to_json
from gigafactory.domain.manifest.profile import Profile, parse_profile_file, parse_profile_json
from gigafactory.wire.jobs import ProfilesView

TAG = "Profiles"
VERSION_DIGITS_MAX = 9

PROFILE = {
    "name": "backend",
    "version": 1,
    "persona": "You write small, well tested services.",
    "capabilities": ["python>=3.11"],
}
FILE = """---
name: backend
capabilities: [python>=3.11]
---
You write small, well tested services.
"""


@get(
    "/profiles",
    opt=operation(TAG, responses={200: Body(of=ProfilesView, example={"profiles": [PROFILE]})}),
)
async def list_profiles(request: ApiRequest) -> ASGIApp:
    """List the profiles of the chosen product, each in its newest version."""
    caller = await request.caller()
    profiles = await request.coordinator.profiles.all(caller.product or "")
    return json_response(ProfilesView(profiles=[profile_to_json(profile) for profile in profiles]))


@post(
    "/profiles",
    opt=operation(
        TAG,
        body=(
            Body(of=dict[str, Any], example=PROFILE),
            Body(media_type="text/markdown", example=FILE),
        ),
        responses={201: Body(of=dict[str, Any], example=PROFILE)},
        errors=(409,),
    ),
)
async def save_profile(request: ApiRequest) -> ASGIApp:
    """Save a profile of the chosen product as a new version, from JSON or from a profile file.

    An unchanged profile keeps its version; existing versions never change.
    """
    caller = await request.caller("profiles")
    saved = await request.coordinator.profiles.save(caller, await _read_profile(request))
    return json_response(profile_to_json(saved), 201)


async def _read_profile(request: ApiRequest) -> Profile:
    file = (request.header(b"content-type") or b"").startswith(b"text/")
    parse = parse_profile_file if file else _parse_json
    return await request.parse_body(parse, bytes_max=REQUEST_BYTES_MAX)


def _parse_json(data: bytes) -> Profile:
    document = decode_document(data, "the profile")
    ours = {"version", "productId"}
    return parse_profile_json({key: value for key, value in document.items() if key not in ours})


@get(
    "/profiles/{name:str}",
    opt=operation(TAG, responses={200: Body(of=dict[str, Any], example=PROFILE)}, errors=(404,)),
)
async def get_profile(request: ApiRequest) -> ASGIApp:
    """Return a profile in its newest version."""
    caller = await request.caller()
    name = request.path_name("name", "profile")
    return json_response(profile_to_json(await request.coordinator.profiles.get(caller, name)))


@get(
    "/profiles/{name:str}/{version:str}",
    opt=operation(TAG, responses={200: Body(of=dict[str, Any], example=PROFILE)}, errors=(404,)),
)
async def get_profile_version(request: ApiRequest) -> ASGIApp:
    """Return one version of a profile."""
    caller = await request.caller()
    name, version = request.path_name("name", "profile"), request.path_name("version", "version")
    if not version.isdecimal() or len(version) > VERSION_DIGITS_MAX:
        raise NotFound("profile", f"{name}@{version}", "versions are whole numbers")
    profile = await request.coordinator.profiles.get(caller, name, int(version))
    return json_response(profile_to_json(profile))


ROUTES = (list_profiles, save_profile, get_profile, get_profile_version)
