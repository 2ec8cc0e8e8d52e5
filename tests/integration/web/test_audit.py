"""The audit page: events, paging and access."""

import re

from gigafactory.domain.tenancy.access import Role
from tests.support.api_server import Server, open_stream
from tests.support.web_session import Visitor, a_visitor

EVIL = '<script>alert(1)</script><img src=x onerror="alert(2)">'


async def test_audit_log_shows_actors_and_escapes_text(ann: Visitor) -> None:
    assert (await ann.send("/halt", product="*", reason=EVIL)).status_code == 303
    assert (await ann.send("/settings/products", product="shop")).status_code == 303
    text = await ann.page("/audit")
    cell = r'<td class="nb">([^<]+)</td>'
    rows = re.findall(rf'<th scope="row" class="nb">([^<]+)</th>{cell}{cell}', text)
    assert rows[:2] == [("product changed", "ann", "shop"), ("halted", "ann", "fleet")]
    assert "token id</span>" in text
    assert "&lt;script&gt;alert(1)" in text
    assert "<img src=x" not in text
    assert '<a href="/audit" aria-current="page">Audit</a>' in text


def tells(text: str, product: str) -> bool:
    """Return whether a page has a row about this product."""
    return f'<td class="nb">{product}</td>' in text


async def test_older_events_are_on_the_next_page(ann: Visitor, server: Server) -> None:
    async with server.client() as admin:
        for number in range(60):
            made = await admin.put(f"/products/p-{number}", json={})
            assert made.status_code == 200
    first = await ann.page("/audit")
    assert (tells(first, "p-59"), tells(first, "p-3")) == (True, False)
    found = re.search(r'href="(/audit\?cursor=[^"]+)" rel="next"', first)
    assert found is not None
    second = await ann.page(found[1])
    assert (tells(second, "p-59"), tells(second, "p-3")) == (False, True)
    assert 'rel="next"' not in second
    assert '<a href="/audit">Newest</a>' in second
    await ann.page("/audit?cursor=nonsense", 422)
    await ann.page("/audit?other=1", 422)
    assert (await ann.send("/product", product="p-3", back="/audit")).status_code == 303
    of_one = await ann.page("/audit")
    assert (tells(of_one, "p-3"), tells(of_one, "p-4")) == (True, False)
    assert "Changes in p-3" in of_one
    # A cursor is valid only for the query that it came from.
    await ann.page(found[1], 422)


async def test_audit_page_updates_live(ann: Visitor) -> None:
    async with open_stream(ann.http, "/live/audit") as result:
        parts = (each.data["html"] async for each in result if each.event == "part")
        assert "product changed" not in await anext(parts)
        await ann.send("/settings/products", product="shop")
        while "product changed" not in await anext(parts):
            pass


async def test_audit_page_is_forbidden_for_viewers(server: Server) -> None:
    async with a_visitor(server, "vera", Role.VIEWER) as vera:
        assert 'href="/audit"' not in await vera.page("/settings")
        assert "audit needs one of" in await vera.page("/audit", 403)
        assert (await vera.http.get("/live/audit")).status_code == 403
    async with a_visitor(server, "otto", Role.OPERATOR) as otto:
        assert 'href="/audit"' in await otto.page("/")
        await otto.page("/audit")
