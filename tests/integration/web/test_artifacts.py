"""Artifacts on the job page: download, text view, upload, sharing and removal."""

import hashlib
import re
from collections.abc import AsyncIterator

import httpx
import pytest

from gigafactory.domain.tenancy.access import Role
from tests.support.api_server import Server
from tests.support.jobs_api import submit_job
from tests.support.web_session import Visitor, a_visitor, an_anonymous_browser

EVIL = b"<script>alert(1)</script>\n"


async def left(
    admin: httpx.AsyncClient, data: bytes, name: str, kind: str = "text/html"
) -> tuple[str, str]:
    """Create a job with an artifact and return both ids."""
    job_id = (await submit_job(admin, {"manifest": {"name": "one"}, "body": "# One"}))["id"]
    digest = hashlib.sha256(data).hexdigest()
    params = {"name": name, "sha256": digest, "mediaType": kind}
    made = await admin.post(f"/jobs/{job_id}/artifacts", params=params, content=data)
    assert made.status_code == 201, made.text
    return job_id, made.json()["id"]


async def test_artifact_is_listed_with_size_and_hash_and_downloads_as_attachment(
    ann: Visitor, admin: httpx.AsyncClient
) -> None:
    job_id, artifact_id = await left(admin, EVIL, 'reports/say "hi" ü.html')
    text = await ann.page(f"/jobs/{job_id}")
    assert f'href="/artifacts/{artifact_id}" download' in text
    assert f"{len(EVIL)} B" in text
    assert hashlib.sha256(EVIL).hexdigest() in text
    saved = await ann.http.get(f"/artifacts/{artifact_id}", headers={"accept": "text/html"})
    assert saved.content == EVIL
    given = saved.headers["content-disposition"]
    assert given == "attachment; filename*=UTF-8''say%20%22hi%22%20%C3%BC.html"
    assert saved.headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in saved.headers["content-security-policy"]


async def test_small_text_artifact_is_shown_escaped(ann: Visitor, admin: httpx.AsyncClient) -> None:
    _, artifact_id = await left(admin, EVIL + b"\xff", "report.html")
    text = await ann.page(f"/artifacts/{artifact_id}/text")
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "<script>alert" not in text


@pytest.mark.parametrize(
    ("data", "kind"), [(b"\x00" * 10, "application/zip"), (b"x" * (257 << 10), "text/plain")]
)
async def test_large_or_binary_artifact_can_only_be_downloaded(
    ann: Visitor, admin: httpx.AsyncClient, data: bytes, kind: str
) -> None:
    job_id, artifact_id = await left(admin, data, "file", kind)
    assert f"{artifact_id}/text" not in await ann.page(f"/jobs/{job_id}")
    assert "download it instead" in await ann.page(f"/artifacts/{artifact_id}/text", 404)
    assert (await ann.http.get(f"/artifacts/{artifact_id}")).content == data


async def test_artifacts_of_an_invisible_job_are_not_found(
    server: Server, admin: httpx.AsyncClient
) -> None:
    _, artifact_id = await left(admin, EVIL, "report.html")
    secret = await server.token("eve", Role.VIEWER, ["elsewhere"])
    async with an_anonymous_browser(server) as http:
        assert (await http.get(f"/artifacts/{artifact_id}")).status_code == 401
        await http.post("/login", data={"token": secret})
        for place in (f"/artifacts/{artifact_id}", f"/artifacts/{artifact_id}/text"):
            assert (await http.get(place)).status_code == 404


async def sends(visitor: Visitor, job_id: str, name: str, data: bytes) -> httpx.Response:
    """Upload a file like the page's script and return the response."""
    return await visitor.http.post(
        f"/jobs/{job_id}/artifacts",
        params={"name": name},
        content=data,
        headers={"x-csrf": await visitor.csrf()},
    )


async def test_file_is_uploaded_on_the_job_page(ann: Visitor, admin: httpx.AsyncClient) -> None:
    job_id, _ = await left(admin, b"x", "other")
    assert f'action="/jobs/{job_id}/artifacts"' in await ann.page(f"/jobs/{job_id}")
    data = EVIL * (1 << 15)
    made = await sends(ann, job_id, "reports/new.html", data)
    assert made.status_code == 201, made.text
    added = made.json()
    assert (added["size"], added["mediaType"]) == (len(data), "text/html")
    assert (added["sha256"], added["createdBy"]) == (hashlib.sha256(data).hexdigest(), "user:ann")
    assert (await ann.http.get(f"/artifacts/{added['id']}")).content == data
    assert "reports/new.html</a>" in await ann.page(f"/jobs/{job_id}")
    again = await sends(ann, job_id, "reports/new.html", data)
    assert again.json()["id"] == added["id"], "the same file is the same artifact"
    climbing = await sends(ann, job_id, "../secrets", data)
    assert (climbing.status_code, "without `..`" in climbing.text) == (422, True)
    assert (await sends(ann, "nobody", "x", data)).status_code == 404


async def test_share_link_is_shown_once_and_needs_no_session(
    server: Server, ann: Visitor, admin: httpx.AsyncClient
) -> None:
    job_id, artifact_id = await left(admin, b"all of it", "reports/new.md")
    place = f"/artifacts/{artifact_id}/share"
    assert f'action="{place}"' in await ann.page(f"/jobs/{job_id}")
    made = await ann.send(place)
    found = re.search(r'id="address">([^<]+)<', made.text)
    assert found is not None
    assert found[1].startswith(server.url)
    async with an_anonymous_browser(server) as anonymous:
        assert (await anonymous.get(found[1])).content == b"all of it"
        assert (await anonymous.get(found[1].partition("?")[0])).status_code == 401
    assert "?link=" not in await ann.page(f"/jobs/{job_id}")


async def test_artifact_is_removed_on_the_job_page(
    server: Server, ann: Visitor, admin: httpx.AsyncClient
) -> None:
    job_id, artifact_id = await left(admin, b"x", "reports/old.md")
    place = f"/artifacts/{artifact_id}/delete"
    async with a_visitor(server, "vera", Role.VIEWER) as vera:
        assert place not in await vera.page(f"/jobs/{job_id}")
        assert (await vera.send(place)).status_code == 403
    assert f'action="{place}"' in await ann.page(f"/jobs/{job_id}")
    done = await ann.send(place)
    assert (done.status_code, done.headers["location"]) == (303, f"/jobs/{job_id}")
    assert (await ann.http.get(f"/artifacts/{artifact_id}")).status_code == 404
    text = await ann.page(f"/jobs/{job_id}")
    assert "reports/old.md</a>" not in text
    assert "artifact deleted" in text, "the story keeps it"


async def test_upload_needs_same_origin_csrf_token_and_role(
    server: Server, ann: Visitor, admin: httpx.AsyncClient
) -> None:
    job_id, _ = await left(admin, b"x", "other")
    place, named = f"/jobs/{job_id}/artifacts", {"name": "new"}
    ours = {"x-csrf": await ann.csrf()}
    for headers in (
        *({}, {"x-csrf": "0" * 64}),
        *(
            {**ours, "origin": "https://elsewhere.example"},
            {**ours, "sec-fetch-site": "cross-site"},
        ),
    ):
        refused = await ann.http.post(place, params=named, content=b"y", headers=headers)
        assert refused.status_code == 403, headers
    async with a_visitor(server, "rita", Role.REVIEWER) as rita:
        assert "Add a file" not in await rita.page(f"/jobs/{job_id}")
        assert (await sends(rita, job_id, "new", b"y")).status_code == 403
    assert len((await admin.get(place)).json()["artifacts"]) == 1


async def test_too_large_upload_is_refused_with_and_without_content_length(
    server: Server, ann: Visitor, admin: httpx.AsyncClient
) -> None:
    job_id, _ = await left(admin, b"x", "other")
    server.coordinator.artifacts.bytes_max = 10
    assert (await sends(ann, job_id, "new", b"y" * 11)).status_code == 413

    async def unannounced() -> AsyncIterator[bytes]:
        for _ in range(11):
            yield b"y"

    headers = {"x-csrf": await ann.csrf()}
    place = f"/jobs/{job_id}/artifacts"
    refused = await ann.http.post(
        place, params={"name": "new"}, content=unannounced(), headers=headers
    )
    assert refused.status_code == 413
    assert (await sends(ann, job_id, "new", b"y" * 10)).status_code == 201
