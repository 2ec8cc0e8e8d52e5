"""The settings page: halt switch, dispatch mode, products and notification channels."""

import re
from datetime import timedelta

from msgspec.structs import replace

from gigafactory.coordinator.duties.notifier import Channel
from gigafactory.domain.job.change import RecordChange
from gigafactory.domain.tenancy.access import Role
from gigafactory.domain.tenancy.dispatch_mode import (
    ComparedPlacement,
    ShadowComparison,
    compare_placements,
)
from tests.support.api_server import SYSTEM, Server
from tests.support.builders import NOON
from tests.support.web_session import Visitor, a_visitor


async def test_fleet_is_halted_and_resumed_on_the_settings_page(
    ann: Visitor, server: Server
) -> None:
    text = await ann.page("/settings")
    for heading in ("Halt switch", "Products", "Tokens", "Profiles", "Notifications"):
        assert f">{heading}</h2>" in text
    assert "Nothing is halted" in text
    halted = await ann.send("/halt", product="*", reason="bad release", back="/settings")
    assert (halted.status_code, halted.headers["location"]) == (303, "/settings")
    text = await ann.page("/settings")
    assert "<strong>The whole fleet is halted</strong>" in text
    assert ": bad release" in text
    assert "Halt the whole fleet" not in text
    assert 'name="back" value="/"' in await ann.page("/"), "who resumes at home stays there"
    gone_on = await ann.send("/resume", product="*", back="/settings")
    assert gone_on.headers["location"] == "/settings"
    await server.coordinator.index.catch_up()
    assert server.coordinator.index.fleet.stop_reason("notes") is None
    elsewhere = await ann.send("/halt", product="*", back="https://elsewhere.example")
    assert elsewhere.status_code == 422


async def test_dispatch_mode_is_set_and_the_comparison_is_shown(
    ann: Visitor, server: Server
) -> None:
    assert "Dispatch mode" not in await ann.page("/settings"), "no product yet"
    assert (await ann.send("/settings/dispatch", product="notes", mode="shadow")).status_code == 303
    known = await server.coordinator.store.record(ShadowComparison, "notes")
    assert known is not None
    here, there = (
        ComparedPlacement(factory_id=f, engine="claude", score=4.0) for f in ("mac-1", "mac-2")
    )
    worse = compare_placements("job-1", here, replace(there, score=2.5), now=NOON)
    grown = known.add_findings(worse).add_findings(
        compare_placements("job-2", here, here, now=NOON)
    )
    await server.coordinator.store.commit(RecordChange(before=known, after=replace(grown, rev=2)))
    text = await ann.page("/settings")
    row = r'<th scope="row">notes</th><td>shadow</td><td>2</td><td>50.0%</td><td>1</td><td>0</td>'
    assert re.search(row, text)
    assert "shadow mac-1 claude (4.00), real mac-2 claude (2.50)" in text
    refused = await ann.send("/settings/dispatch", product="notes", mode="push")
    assert refused.status_code == 409
    assert "force the switch" in refused.text
    forced = await ann.send("/settings/dispatch", product="notes", mode="push", force="true")
    assert (forced.status_code, forced.headers["location"]) == (303, "/settings#dispatch")
    assert server.coordinator.index.dispatch_modes.mode_of("notes") == "push"
    for wrong in ({"mode": "sideways"}, {"product": "No such"}):
        form = {"product": "notes", "mode": "pull"} | wrong
        assert (await ann.send("/settings/dispatch", **form)).status_code == 422
    async with a_visitor(server, "vera", Role.VIEWER) as viewer:
        assert 'action="/settings/dispatch"' not in await viewer.page("/settings")
        denied = await viewer.send("/settings/dispatch", product="notes", mode="pull")
        assert denied.status_code == 403


class Silent:
    """A notification channel that discards everything."""

    async def send(self, channel: str, title: str, body: str) -> None:
        """Discard the notification."""


async def test_notification_channels_are_shown(ann: Visitor, server: Server) -> None:
    assert "No channel is set up" in await ann.page("/settings")
    ops = Channel(name="ops", products=("notes",), kinds=("review", "failed"))
    server.coordinator.notify_through(Silent(), [ops])
    text = await ann.page("/settings")
    result = text[text.index('id="channels"') :]
    assert "<strong>ops</strong>" in result
    assert "notes · review, failed" in result


async def test_product_form_keeps_absent_settings(ann: Visitor, server: Server) -> None:
    async with server.client() as admin:
        wait = {"targetWait": {"critical": "5m"}, "weights": {"affinity": 0.9}}
        assert (await admin.put("/products/notes", json=wait)).status_code == 200
    form = {"product": "notes", "share": "2.5", "repos": "notes, site", "paths": ".github/**\n"}
    done = await ann.send("/settings/products", **form)
    assert (done.status_code, done.headers["location"]) == (303, "/settings")
    product = await server.coordinator.products.get(SYSTEM, "notes")
    assert (product.share, product.repos) == (2.5, ("notes", "site"))
    assert product.protected_paths == (".github/**",)
    assert product.weights.affinity == 0.9
    assert list(product.target_wait) == ["critical"]
    text = await ann.page("/settings")
    row = r'<th scope="row">notes</th><td>2.5</td><td>notes, site</td><td>\.github/\*\*</td>'
    assert re.search(row, text)
    more = {"waits": "critical 10m\r\nlow=2d\r\n", "weights": "affinity 0.25\r\nlearned 1"}
    assert (await ann.send("/settings/products", **form, **more)).status_code == 303
    product = await server.coordinator.products.get(SYSTEM, "notes")
    waits = {each.value: wait for each, wait in product.target_wait.items()}
    assert waits == {"critical": timedelta(minutes=10), "low": timedelta(days=2)}
    weights = product.weights
    assert (weights.affinity, weights.learned, weights.load) == (0.25, 1.0, 1.0)
    text = await ann.page("/settings")
    assert ">critical 10m\nlow 2d</textarea>" in text
    assert "affinity 0.25\n" in text
    for wrong in (
        *({"waits": "critical"}, {"waits": "soon 5m"}, {"waits": "low 5x"}),
        *({"weights": "beauty 1"}, {"weights": "load much"}, {"weights": "load -1"}),
    ):
        refused = await ann.send("/settings/products", **(form | wrong))
        assert refused.status_code == 422, wrong
    for wrong in ({"share": "0"}, {"share": "much"}, {"product": "No such"}, {"repos": "--x"}):
        refused = await ann.send("/settings/products", **(form | wrong))
        assert refused.status_code == 422, wrong


async def test_viewer_has_no_buttons_on_the_settings_page(server: Server) -> None:
    async with a_visitor(server, "vera", Role.VIEWER) as vera:
        text = await vera.page("/settings")
        for word in ("Create token", "Halt the whole fleet", "Add a product", ">Tokens<"):
            assert word not in text
        assert "backend-engineer" in text
        assert (await vera.send("/settings/products", product="notes")).status_code == 403
        assert (await vera.send("/halt", product="*")).status_code == 403
