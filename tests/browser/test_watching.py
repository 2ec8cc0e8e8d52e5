"""Live updates: a job is followed, reviewed and shipped without a reload."""

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from gigafactory.domain.errors import Unavailable
from gigafactory.domain.job.job import Stage
from gigafactory.store.memory import MemoryStore
from tests.browser.people import AWAY, LOST, Visitor
from tests.support.api_server import a_server
from tests.support.factory.local_fleet import FactoryHarness, a_local_harness
from tests.support.polling import until

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_job_is_followed_live_approved_and_shipped(
    ann: Visitor, yard: FactoryHarness
) -> None:
    await ann.sees("No job is running.")
    async with yard.factory():
        job_id = await yard.submit(
            "printf '\\033[32mgreen\\033[0m begun\\n'; echo x > x; "
            f"until [ -e {yard.folder}/go ]; do sleep 0.05; done; echo over",
            name="paint",
            reviewPolicy="manual",
        )
        await ann.page.locator(".column.working .card").wait_for()
        await ann.open(f"/jobs/{job_id}")
        green = ann.page.locator("#log-lines .f2")
        await green.wait_for()
        assert await green.inner_text() == "green"
        (yard.folder / "go").touch()
        await ann.sees("Decide")
        await ann.sees("over")
        assert (await ann.page.title()).startswith("● ")
        await searched(ann)
        await ann.clicks("Approve")
        await ann.page.locator(".stage.testing").wait_for()
        await ann.clicks("Ship")
        await ann.page.locator(".stage.shipped").wait_for()
        result = await ann.page.locator(".timeline .kind").all_inner_texts()
        assert result[0] == "shipped", "what happens is in the timeline at once, on top"
    assert (await yard.job(job_id))["stage"] == "shipped"


async def searched(ann: Visitor) -> None:
    """Check the search of the log, and that scrolling up stops following."""
    lines = ann.page.locator("#log-lines > div")
    await ann.page.get_by_label("Search").fill("GREEN")
    assert await lines.filter(visible=True).all_inner_texts() == ["green begun"]
    await ann.page.get_by_label("Search").fill("")
    shown = await lines.filter(visible=True).all_inner_texts()
    assert {"green begun", "over"} <= set(shown)
    follow, box = ann.page.get_by_label("follow"), ann.page.locator("#log-lines")
    assert await follow.is_checked()
    # A long log stays scrolled to its end only while it is followed.
    await box.evaluate(
        "box => box.append(...Array.from({length: 500}, () => {"
        " const line = document.createElement('div'); line.textContent = 'x'; return line; }))"
    )
    await follow.uncheck()
    assert await box.evaluate("box => box.scrollTop") == 0
    await follow.check()
    assert await box.evaluate("box => box.scrollTop + box.clientHeight >= box.scrollHeight - 2")
    await box.hover()
    await ann.page.mouse.wheel(0, -2000)
    await expect(follow).not_to_be_checked()
    await ann.page.mouse.wheel(0, 99_999)
    await expect(follow).to_be_checked()


async def test_tab_counts_attention_items_and_home_page_decides(
    ann: Visitor, yard: FactoryHarness
) -> None:
    async with yard.factory():
        job_id = await yard.submit("echo x > x", name="small", reviewPolicy="manual")
        await ann.page.locator(".column.review .card").wait_for()
        assert await ann.page.title() == "(1) Gigafactory"
        icon = await ann.page.locator('link[rel="icon"]').get_attribute("href")
        assert icon == "/icon.svg?count=1"
        await ann.clicks("Approve")
        await ann.page.locator(".column.ship .card").wait_for()
        assert (await yard.job(job_id))["stage"] == "testing"


async def test_reviewer_requests_changes_with_a_reason(ann: Visitor, yard: FactoryHarness) -> None:
    async with yard.factory():
        job_id = await yard.submit("echo x > x", name="small", reviewPolicy="manual")
        await yard.wait_until_idle(job_id)
        await ann.open(f"/jobs/{job_id}")
        await ann.page.get_by_label("Reason").fill("use the other colour")
        await ann.clicks("Request changes")
        await ann.sees("use the other colour")
        await until(lambda: _runs(yard, job_id))
        assert "changes_requested" in await yard.event_types(job_id)


async def _runs(yard: FactoryHarness, job_id: str) -> bool:
    data = (await yard.api.get(f"/jobs/{job_id}", params={"include": "runs"})).json()
    return len(data["runs"]) == 2


async def test_page_reports_a_lost_connection_and_reconnects(
    ann: Visitor, yard: FactoryHarness
) -> None:
    await ann.page.context.set_offline(offline=True)
    ann.server.app.state.streams.close()
    await ann.page.wait_for_selector(LOST)
    job_id = await yard.submit("# Meanwhile\necho x", name="meanwhile")
    await ann.page.context.set_offline(offline=False)
    await ann.live()
    shown = ann.page.locator(f'[data-open="/jobs/{job_id}"]').first
    await shown.wait_for()
    assert "Meanwhile" in await shown.inner_text()
    ann.errors.clear()


async def test_page_redirects_to_login_when_signed_out_elsewhere(
    ann: Visitor, yard: FactoryHarness
) -> None:
    tokens = (await yard.api.get("/tokens")).json()["tokens"]
    [mine] = [t["id"] for t in tokens if t["kind"] == "operator" and t["user"] == "ann"]
    await yard.api.delete(f"/tokens/{mine}")
    await ann.page.wait_for_url("**/login?ended=yes")
    await ann.sees("You are signed out")
    assert await ann.page.get_by_label("Your token").is_visible()


async def test_expired_session_is_reported(browser: Browser, tmp_path: Path) -> None:
    async with (
        a_local_harness(tmp_path) as yard,
        Visitor.signed_in(browser, yard.api_server, "ann") as ann,
    ):
        yard.clock.advance(timedelta(days=15))
        # The page reacts to the next event, without a click.
        await yard.submit("echo x", name="news")
        await ann.page.wait_for_url("**/login?ended=yes")
        await ann.sees("You are signed out")


class LeavingStore(MemoryStore):
    """A store that can be unavailable."""

    away = False

    async def count_jobs_by_stage(self, products: tuple[str, ...] | None) -> Mapping[Stage, int]:
        """Fail during an outage; all live pages of these tests count jobs."""
        if self.away:
            raise Unavailable("the store is unavailable")
        return await super().count_jobs_by_stage(products)


async def test_outage_is_reported_and_content_stays(browser: Browser, tmp_path: Path) -> None:
    store = LeavingStore()
    async with (
        a_server(tmp_path, store=store) as server,
        server.client() as admin,
        Visitor.signed_in(browser, server, "ann") as ann,
    ):
        before = {"manifest": {"name": "before"}, "body": "# Before it"}
        assert (await admin.post("/jobs", json=before)).status_code == 201
        await ann.sees("Before it")
        store.away = True
        await admin.post("/jobs", json={"manifest": {"name": "after"}, "body": "# After it"})
        await ann.page.wait_for_selector(AWAY)
        assert "outage: the store is unavailable" in await ann.page.locator("#live").inner_text()
        assert await ann.page.get_by_text("Before it").first.is_visible(), "no page goes empty"
        async with Visitor.another(ann) as other:
            answer = await other.page.goto("/")
            assert answer is not None
            assert answer.status == 503
            await other.sees("Temporarily unavailable")
        store.away = False
        await admin.post("/jobs", json={"manifest": {"name": "later"}, "body": "# Later"})
        await ann.live()
        await ann.page.locator(".column.waiting").get_by_text("After it").wait_for()


async def test_line_comments_are_sent_to_the_agent_together(
    ann: Visitor, yard: FactoryHarness
) -> None:
    async with yard.factory():
        job_id = await yard.submit(
            "printf 'one\\ntwo\\n' > new.txt", name="lines", reviewPolicy="manual"
        )
        await yard.wait_until_idle(job_id)
        await ann.page.goto(f"/jobs/{job_id}/diff")
        await ann.sees("2 lines added")
        for line, words in (("1", "say first"), ("2", "say second")):
            name = f"Comment on line {line} of new.txt"
            await ann.page.get_by_role("button", name=name).click()
            await ann.page.get_by_role("textbox", name=name).fill(words)
        await ann.sees("2 comments")
        await ann.page.get_by_label("Reason").fill("nearly there")
        await ann.clicks("Request changes")
        await ann.page.wait_for_url(f"**/jobs/{job_id}")
    events = (await yard.api.get(f"/jobs/{job_id}/events")).json()["events"]
    [asked] = [event["data"] for event in events if event["type"] == "changes_requested"]
    assert asked["comment"] == (
        "nearly there\n\nnew.txt:1\n> one\nsay first\n\nnew.txt:2\n> two\nsay second"
    )


async def test_new_job_is_validated_while_typing_with_a_preview(
    ann: Visitor, yard: FactoryHarness
) -> None:
    async with yard.factory():
        await ann.page.goto("/new")
        text = ann.page.get_by_label("A job file")
        await text.fill("---\npriority: hasty\n---\n# Say hello\n")
        await ann.sees("line 2")
        await text.fill("---\nname: hello\nengine: command\nship: none\n---\necho hello\n")
        await ann.sees("would run now on")
        await ann.clicks("Submit")
        await ann.live()
        await ann.page.locator(".stage.review").wait_for()
        await ann.sees("hello")
