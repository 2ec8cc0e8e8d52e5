"""The profile page: versions, validation and saving."""

import html
import re

from msgspec.structs import replace

from gigafactory.domain.manifest.profile import parse_profile_file
from gigafactory.domain.tenancy.access import Role
from gigafactory.profiles import shipped
from gigafactory.web.presenters.profile_text import format_profile_file
from tests.support.api_server import Server
from tests.support.web_session import Visitor, a_visitor

OWN = "---\nname: careful\nstall: 20m\nx-ours: {deep: [1]}\n---\nYou look twice.\n"
FORM = "/settings/profiles"


def written(text: str) -> str:
    """Return the content of the text field."""
    found = re.search(r"<textarea[^>]*>(.*?)</textarea>", text, re.DOTALL)
    assert found is not None
    return html.unescape(found[1])


def test_profile_file_round_trips() -> None:
    policy = 'review-policy: {reviewers: ["@ann"], quorum: 1}\n'
    own = parse_profile_file(OWN.replace("stall", f"{policy}default-verify: make test\nstall"))
    for profile in (own, *shipped().values()):
        again = parse_profile_file(
            format_profile_file(replace(profile, version=7, product_id="shop"))
        )
        assert again == profile


async def test_changed_profile_is_saved_as_a_new_version(ann: Visitor) -> None:
    assert 'href="/settings/profiles/qa?product=default"' in await ann.page("/settings")
    text = written(await ann.page("/settings/profiles/qa"))
    assert text.startswith("---\nname: qa\n")
    changed = text.replace("\n", "\r\n") + "Be kind.\r\n"
    response = await ann.send("/settings/profile-check", text=changed)
    assert "<strong>qa@2 of default</strong>" in response.text
    saved = await ann.send(FORM, text=changed)
    assert saved.headers["location"] == "/settings/profiles/qa?product=default&did=saved"
    now = await ann.page(saved.headers["location"])
    assert "qa@2 is saved." in now
    assert "Version 2, of default." in now
    assert written(now).endswith("Be kind.\n")
    assert "Be kind." not in await ann.page("/settings/profiles/qa?version=1")
    assert "version 2 of default" in await ann.page("/settings")
    again = await ann.send(FORM, text=changed)
    assert "qa@2 is unchanged" in await ann.page(again.headers["location"])


async def test_new_profile_is_saved_for_a_product(ann: Visitor, server: Server) -> None:
    assert "name: careful-engineer" in await ann.page(FORM)
    saved = await ann.send(FORM, text=OWN, product="shop")
    assert saved.headers["location"] == "/settings/profiles/careful?product=shop&did=saved"
    assert "You look twice." in await ann.page("/settings/profiles/careful?product=shop")
    await ann.page("/settings/profiles/careful?product=default", 404)
    found = await server.coordinator.profiles.find("shop", "careful")
    assert found == replace(parse_profile_file(OWN), product_id="shop")


async def test_faults_are_shown_next_to_the_text(ann: Visitor) -> None:
    wrong = "---\nname: careful\nstal: 3\n---\n</textarea><script>alert(1)</script>\n"
    refused = await ann.send(FORM, text=wrong)
    assert refused.status_code == 422
    assert "line 3: <code>stal</code>" in refused.text
    assert "<script>alert(1)" not in refused.text
    assert written(refused.text) == wrong
    response = await ann.send("/settings/profile-check", text=wrong)
    assert "line 3: <code>stal</code>" in response.text
    await ann.page("/settings/profiles/nobody", 404)
    await ann.page("/settings/profiles/qa?version=9", 404)
    await ann.page("/settings/profiles/qa?version=x", 422)


async def test_viewer_reads_but_cannot_save(server: Server) -> None:
    async with a_visitor(server, "vera", Role.VIEWER) as vera:
        text = await vera.page("/settings/profiles/qa")
        assert "name: qa" in text
        assert "<textarea" not in text
        assert "Add a profile" not in await vera.page("/settings")
        await vera.page(FORM, 403)
        assert (await vera.send(FORM, text=OWN)).status_code == 403
    secret = await server.token("sam", Role.ADMIN, products=("shop",))
    async with a_visitor(server) as ann:
        ann.http.cookies.clear()
        await ann.http.post("/login", data={"token": secret})
        assert 'href="/settings/profiles/qa?product=shop"' in await ann.page("/settings")
        await ann.page("/settings/profiles/qa?product=notes", 404)
        assert (await ann.send(FORM, text=OWN, product="notes")).status_code == 404
        assert (await ann.send(FORM, text=OWN, product="shop")).status_code == 303
