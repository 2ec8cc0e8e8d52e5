"""Requests of a job's agent to the fleet: allowed and rejected ones."""

import json
import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import pytest_asyncio

from gigafactory.domain.manifest.manifest import Sandbox as Policy
from tests.services.aq import AQ
from tests.support.factory.local_fleet import FactoryHarness, a_local_harness
from tests.support.factory.real_sandbox import a_sandbox, search_path

# The first test on a machine downloads bubblewrap.
pytestmark = pytest.mark.timeout(600)
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap is for Linux")

PLAN = {
    "jsonrpc": "2.0",
    "id": 2,
    "method": "tools/call",
    "params": {
        "name": "hand_in_plan",
        "arguments": {"children": [{"name": "second", "body": "x", "notBefore": "1h"}]},
    },
}
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "script", "version": "1"},
    },
}
READY = {"jsonrpc": "2.0", "method": "notifications/initialized"}

ASK = f"""
mkfifo "$TMPDIR/answers"
(
    printf '%s\\n' '{json.dumps(HELLO)}' '{json.dumps(READY)}' '{json.dumps(PLAN)}'
    while read -r line; do
        echo "heard $line" >&2
        case "$line" in *'"id":2'*) break;; esac
    done < "$TMPDIR/answers"
) | {AQ} mcp > "$TMPDIR/answers"
{AQ} jobs || echo "jobs ended with $?"
echo "token $AQ_FLEET_TOKEN"
echo done > done.txt
"""


@pytest_asyncio.fixture
async def harness(tmp_path: Path) -> AsyncIterator[FactoryHarness]:
    async with a_local_harness(tmp_path) as made:
        yield made


@pytest.mark.parametrize(
    "policy", ["none", *(pytest.param(each, marks=on_linux) for each in ("workspace", "strict"))]
)
async def test_agent_submits_a_plan_for_its_own_composite(
    harness: FactoryHarness, tmp_path: Path, policy: Policy
) -> None:
    environ = None
    if policy != "none":
        await a_sandbox(tmp_path, minimum=policy)
        environ = {"PATH": search_path()}
    child = {"name": "plan", "body": ASK, "engine": "command", "repo": str(harness.remote.path)}
    listed = (urlsplit(harness.server.url).netloc,)
    async with harness.factory(sandbox=policy, environ=environ, allow_hosts=listed):
        submitted = await harness.submit(
            "# The roadmap\n", name="roadmap", kind="composite", children=[child]
        )
        dag = (await harness.api.get(f"/jobs/{submitted}/dag")).json()
        planner = dag["nodes"][1]["id"]
        done = await harness.wait_until_idle(planner)
        log = await harness.log(planner)
    assert done["result"] == "ok", log
    dag = (await harness.api.get(f"/jobs/{submitted}/dag")).json()
    assert [node["name"] for node in dag["nodes"]] == ["roadmap", "plan", "second"], log
    second = await harness.job(dag["nodes"][2]["id"])
    assert second["submittedBy"] == f"job:{planner}"
    assert "has a job token, which is limited to the job's composite" in log
    assert "jobs ended with 6" in log
    assert not re.search(r"gfj_\w", log), "the token is in no log"
    assert "\ntoken " in log


async def test_only_the_engine_of_a_composite_child_has_a_job_token(
    harness: FactoryHarness,
) -> None:
    say = 'echo "$AQ_JOB_ID has ${AQ_FLEET_TOKEN:-nothing}"'
    child = {
        "name": "part",
        "body": "echo > done.txt",
        "engine": "command",
        "repo": str(harness.remote.path),
        "setup": say,
        "verify": say,
    }
    async with harness.factory():
        alone = await harness.submit(f"{say}; echo > alone.txt")
        submitted = await harness.submit("# The roadmap\n", kind="composite", children=[child])
        part = (await harness.api.get(f"/jobs/{submitted}/dag")).json()["nodes"][1]["id"]
        for job_id, times in ((alone, 1), (part, 2)):
            assert (await harness.wait_until_idle(job_id))["result"] == "ok"
            assert (await harness.log(job_id)).count(f"{job_id} has nothing\n") == times
