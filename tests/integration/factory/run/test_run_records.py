"""Run records: versions, usage, cost, diff and verify result."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from gigafactory.domain.job.token_price import Price
from tests.services.few_tools import search_path
from tests.support.factory.local_fleet import FactoryHarness, a_local_harness
from tests.support.factory.scripted_agent import (
    DONE,
    MODEL,
    VERSION,
    model_response,
    scripted_agent,
    tool_call,
)
from tests.support.polling import until


@pytest_asyncio.fixture
async def harness(tmp_path: Path) -> AsyncIterator[FactoryHarness]:
    async with a_local_harness(tmp_path) as made:
        yield made


async def test_run_record_has_versions_usage_diff_and_verify_result(
    harness: FactoryHarness,
) -> None:
    environ = scripted_agent(
        harness.folder / "bin",
        *(tool_call("bash"), tool_call("edit"), tool_call("bash")),
        "echo one > one.txt; echo two >> README.md",
        *(
            model_response(1200, 40, cost=0.25),
            model_response(300, 12, cached=1000, cost=0.5),
            DONE,
        ),
    )
    async with harness.factory(environ=environ):
        job_id = await harness.submit(
            "Do it.", engine="pi", profile="developer", capabilities=["git"]
        )
        await harness.wait_until_idle(job_id)
    [run] = await harness.runs(job_id)
    assert (run["engine"], run["versions"]["pi"]) == ("pi", VERSION)
    assert run["versions"]["git"][0].isdecimal()
    assert (run["factoryId"], run["attempt"], run["result"]) == ("mac-1", 1, "ok")
    assert (run["repo"], run["profile"]) == ("remote", "developer@1")
    assert run["wallSec"] > 0
    assert run["cpuSec"] > 0
    assert run["decision"]["propensity"] == 1.0
    assert run["verify"]["passed"]
    diff = run["diff"]
    assert (diff["filesChanged"], diff["linesAdded"], diff["linesDeleted"]) == (2, 2, 0)
    assert run["usage"] == {
        "engine": "pi",
        "model": MODEL,
        "tokensIn": 1500,
        "tokensCached": 1000,
        "tokensCacheWrite": 0,
        "tokensOut": 52,
        "tokensReasoning": 0,
        "costUsd": "0.75",
        "estimated": False,
        "turns": 2,
        "toolCalls": 3,
        "tools": {"bash": 2, "edit": 1},
    }
    shown = (await harness.api.get(f"/jobs/{job_id}?include=runs")).json()
    assert shown["runs"] == [run]


@pytest.mark.parametrize(
    ("body", "manifest", "result"),
    [
        ("echo x > x; exit 3", {}, "crash"),
        ("echo x > x; echo under way; sleep 600", {"timeout": "1s"}, "timeout"),
    ],
)
async def test_failed_run_records_its_changed_files(
    harness: FactoryHarness, body: str, manifest: dict[str, object], result: str
) -> None:
    async with harness.factory():
        job_id = await harness.submit(body, **manifest)
        await harness.wait_until_idle(job_id)
    [run] = await harness.runs(job_id)
    assert (run["result"], run["diff"]["filesChanged"]) == (result, 1)


async def test_cost_of_a_cancelled_run_is_booked(harness: FactoryHarness) -> None:
    environ = scripted_agent(
        harness.folder / "bin", model_response(1200, 40, cost=0.25), "echo under way", "sleep 600"
    )
    async with harness.factory(environ=environ) as agent:
        job_id = await harness.submit("Do it.", engine="pi")
        await harness.wait_for_log(job_id, "under way")
        await harness.act(job_id, "cancel")
        await until(lambda: not agent.running_jobs)

        async def booked() -> bool:
            [run] = await harness.runs(job_id)
            return bool(run["usage"]) and run["usage"]["costUsd"] == "0.25"

        await until(booked)
        assert (await harness.job(job_id))["stage"] == "cancelled"


async def test_secret_printed_by_verify_is_redacted_from_reports(harness: FactoryHarness) -> None:
    environ = {"PATH": search_path(), "DEPLOY_TOKEN": "correct-horse-battery"}
    async with harness.factory(environ=environ, env=("DEPLOY_TOKEN",)):
        job_id = await harness.submit(
            "touch x", verify='echo "got $DEPLOY_TOKEN"; exit 1', env=["DEPLOY_TOKEN"]
        )
        ended = await harness.wait_until_idle(job_id)
        story = (await harness.api.get(f"/jobs/{job_id}/events")).text
    [run] = await harness.runs(job_id)
    assert "got" in run["verify"]["output"]
    assert "correct-horse" not in ended["reason"] + run["verify"]["output"] + story


async def test_usage_without_a_reported_cost_is_priced_and_marked_estimated(
    harness: FactoryHarness,
) -> None:
    environ = scripted_agent(
        harness.folder / "bin",
        "touch x",
        model_response(1500, 52, cached=1000),
        model_response(0, 100),
        DONE,
    )
    async with harness.factory(environ=environ):
        job_id = await harness.submit("Do it.", engine="pi")
        await harness.wait_until_idle(job_id)
    [run] = await harness.runs(job_id)
    assert (run["usage"]["costUsd"], run["usage"]["estimated"]) == ("0.00708", True)


@pytest.mark.parametrize(
    ("prices", "cost"),
    [({}, None), ({"mine-*": Price(input=1, output=2)}, "0.0016")],
)
async def test_custom_model_has_its_configured_price_or_no_cost(
    harness: FactoryHarness, prices: dict[str, Price], cost: str | None
) -> None:
    environ = scripted_agent(
        harness.folder / "bin", "touch x", model_response(1500, 50, model="mine-7b"), DONE
    )
    async with harness.factory(environ=environ, prices=prices):
        job_id = await harness.submit("Do it.", engine="pi")
        await harness.wait_until_idle(job_id)
    [run] = await harness.runs(job_id)
    assert (run["usage"]["costUsd"], run["usage"]["estimated"]) == (cost, cost is not None)


async def test_estimated_cost_over_budget_stops_the_run(harness: FactoryHarness) -> None:
    environ = scripted_agent(harness.folder / "bin", model_response(1_000_000, 0), "sleep 600")
    async with harness.factory(environ=environ):
        job_id = await harness.submit("Do it.", engine="pi", budget={"usd": 2})
        ended = await harness.wait_until_idle(job_id)
    assert ended["result"] == "budget_exceeded"
    assert ended["reason"] == "3 USD of 2 are spent by estimate"


async def test_usage_is_visible_while_a_run_continues(harness: FactoryHarness) -> None:
    sign = harness.folder / "sign"
    environ = scripted_agent(
        harness.folder / "bin",
        *(tool_call("bash"), model_response(1200, 40, cost=0.25)),
        f"until [ -e {sign} ]; do sleep 0.05; done",
        *("touch x", model_response(300, 12, cost=0.5), DONE),
    )
    async with harness.factory(environ=environ):
        job_id = await harness.submit("Do it.", engine="pi")

        async def seen() -> bool:
            runs = await harness.runs(job_id)
            return bool(runs and runs[0]["usage"])

        await until(seen)
        [run] = await harness.runs(job_id)
        assert (run["endedAt"], run["usage"]["costUsd"]) == (None, "0.25")
        assert (run["usage"]["tokensIn"], run["usage"]["tools"]) == (1200, {"bash": 1})
        sign.touch()
        await harness.wait_until_idle(job_id)
    [run] = await harness.runs(job_id)
    assert (run["usage"]["costUsd"], run["usage"]["turns"]) == ("0.75", 2)
