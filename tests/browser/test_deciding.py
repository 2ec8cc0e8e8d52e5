"""Decisions on the pages: budgets, artifacts, phases and factories."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from playwright.async_api import FilePayload

from tests.browser.people import Visitor
from tests.services.aq import AQ, environment
from tests.support.factory.local_fleet import FactoryHarness
from tests.support.polling import until

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_budget_is_paused_with_a_reason_and_resumed(
    ann: Visitor, yard: FactoryHarness
) -> None:
    job_id = await yard.submit("echo x", name="costly", ship="none")
    await ann.open("/budget")
    await ann.page.get_by_label("Reason").fill("ask the finance people")
    await ann.clicks("Pause notes")
    await ann.live()
    await ann.sees("ask the finance people")
    async with yard.factory():
        await ann.open(f"/jobs/{job_id}")
        await ann.sees("Why not yet")
        await ann.sees("ask the finance people")
        await ann.open("/budget")
        await ann.clicks("Resume notes")
        await yard.wait_until_idle(job_id)
    await ann.live()
    await ann.page.get_by_role("button", name="Pause notes").wait_for()


async def test_uploaded_file_appears_in_the_artifacts(ann: Visitor, yard: FactoryHarness) -> None:
    job_id = await yard.submit("echo x", name="costly")
    await ann.open(f"/jobs/{job_id}")
    chooser = ann.page.get_by_label("File", exact=True)
    report = FilePayload(name="all.md", mimeType="text/markdown", buffer=b"# A report")
    await chooser.set_input_files([report])
    await ann.page.get_by_label("Name", exact=True).fill("reports/all.md")
    await ann.clicks("Add")
    await ann.sees("reports/all.md was added.")
    await ann.page.get_by_role("link", name="reports/all.md", exact=True).wait_for()
    await ann.page.get_by_role("link", name="Read reports/all.md").click()
    await ann.sees("# A report")


async def test_next_phase_is_approved_on_the_roadmap_page(
    ann: Visitor, yard: FactoryHarness
) -> None:
    usual = {"engine": "command", "ship": "none", "body": "echo x", "verify": "true"}
    usual |= {"reviewPolicy": "auto", "shipPolicy": "auto"}
    children = [
        {"name": "ground", "phase": 1, **usual},
        {"name": "house", "phase": 2, "deps": ["ground"], **usual},
    ]
    manifest = {"name": "plan", "kind": "composite", "children": children}
    made = await yard.api.post("/jobs", json={"manifest": manifest, "body": "# The plan"})
    assert made.status_code == 201, made.text
    place = f"/jobs/{made.json()['id']}/roadmap"
    await ann.open(place)
    async with yard.factory():
        await ann.sees("Phase 2 waits for your approval.")
        await ann.clicks("Approve phase 2")
        await ann.open(place)
        await ann.sees("2 of 2 shipped")
    assert await ann.page.locator(".box.shipped").count() == 2


async def test_factory_is_drained_and_resumed(ann: Visitor, yard: FactoryHarness) -> None:
    async with yard.factory() as agent:
        await ann.open("/fleet")
        card = ann.page.locator("#mac-1")
        await card.locator(".state", has_text="online").wait_for()
        await ann.clicks("Drain mac-1")
        await ann.sees("mac-1 is draining")
        await card.locator(".state", has_text="draining").wait_for()
        await until(lambda: agent.draining)
    job_id = await yard.submit("echo x", name="later", ship="none")
    await ann.open(f"/jobs/{job_id}")
    await ann.sees("Why not yet")
    await ann.open("/fleet")
    await ann.clicks("Resume mac-1")
    async with yard.factory():
        await yard.wait_until_idle(job_id)


async def test_irreversible_actions_ask_for_confirmation(
    ann: Visitor, yard: FactoryHarness
) -> None:
    await yard.token("mac-1")
    await ann.open("/fleet")
    yes = ann.page.get_by_role("button", name="Deregister: mac-1")
    assert not await yes.is_visible()
    await ann.page.locator("#mac-1 summary", has_text="Deregister").click()
    await yes.click()
    await ann.sees("mac-1 is removed from the fleet")
    assert await ann.page.locator("#mac-1").count() == 0


@asynccontextmanager
async def pasted(command: str, home: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run a command as on another machine until the block ends."""
    path = f"{Path(AQ).parent}{os.pathsep}{os.environ['PATH']}"
    process = await asyncio.create_subprocess_shell(
        command, cwd=home, env=environment(home, PATH=path), start_new_session=True
    )
    try:
        yield process
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        await process.wait()


async def test_machine_joins_with_the_shown_command(
    ann: Visitor, yard: FactoryHarness, tmp_path: Path
) -> None:
    await ann.open("/fleet")
    await ann.clicks("Add a machine")
    await ann.live()
    command = await ann.page.locator("#command").inner_text()
    home = tmp_path / "machine"
    home.mkdir()
    assert await ann.page.locator(".factory").count() == 0
    async with pasted(command.replace("enroll ", "enroll linux-2 ", 1), home):
        # The card must appear without a reload.
        await ann.page.locator("#linux-2.online").wait_for()
        assert await ann.page.locator("#command").is_visible()
        job_id = await yard.submit("echo x", name="first", ship="none", repo=None, verify=None)
        await yard.wait_until_idle(job_id)
    assert [run["factoryId"] for run in await yard.runs(job_id)] == ["linux-2"]
    await ann.open("/fleet")
    assert await ann.page.locator("#command").count() == 0
