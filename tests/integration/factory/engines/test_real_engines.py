"""Real engines in a factory, with a scripted model."""

import os
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import pytest_asyncio

from gigafactory.domain.job.lease import EXCLUSION_TTL
from gigafactory.factory.process.orphans import find_orphans
from gigafactory.factory.run import run_registry
from tests.services import engines
from tests.services.fake_model import FakeModel, fake_model
from tests.services.fake_model.scenarios import SCENARIOS, Scenario, Shell, Turn, Use
from tests.support.factory.local_fleet import FactoryHarness, LocalHarness, a_local_harness
from tests.support.factory.real_sandbox import a_sandbox, search_path
from tests.support.polling import until

# The timeout is long because the first test on a machine installs the engines.
pytestmark = pytest.mark.timeout(900)

MODELS = {"claude": "claude-sonnet-4-5", "codex": "gpt-5.5"}
COSTS = {"claude": ("0.00558", False), "codex": ("0.00956", True)}
ENGINES = tuple(MODELS)
FACTORY = "mac-1"

PROVIDER = """
model_provider = "scripted"
[model_providers.scripted]
name = "scripted"
base_url = "{url}/v1"
env_key = "CODEX_API_KEY"
wire_api = "responses"
"""

# An interrupted engine may repeat its last step, so only the first call is slow.
SLOW_ONCE = "[ -e step2.txt ] || { echo started > step2.txt; sleep 60; }"
THREE_STEPS = Scenario(
    (
        Turn(step=Shell("echo one > step1.txt")),
        Turn(step=Shell(SLOW_ONCE)),
        Turn(step=Shell("echo three > step3.txt")),
        Turn(text="All three steps are done."),
    )
)

ENTRY = {"name": "from-the-agent", "body": "x", "notBefore": "1h"}
HAND_IN = Turn(step=Use("gigafactory", "submit_job", {"job": ENTRY}))
# An engine that starts before its tools are connected spends the first turn on waiting for them.
HANDS_IN = Scenario((HAND_IN, HAND_IN, Turn(text="It is handed in.")))

ONCE_AND_AGAIN = Scenario(
    (
        Turn(step=Shell("echo once >> said.txt")),
        Turn(text="It is said."),
        Turn(step=Shell("echo twice >> said.txt")),
        Turn(text="It is said twice."),
    )
)


@pytest.fixture
def model() -> Iterator[FakeModel]:
    with fake_model(
        {
            **SCENARIOS,
            "three_steps": THREE_STEPS,
            "reviewed": ONCE_AND_AGAIN,
            "hands_in": HANDS_IN,
        }
    ) as running:
        yield running


@pytest.fixture
def folder() -> Iterator[Path]:
    # Codex installs helper programs into its home, but not below the system's temporary folder,
    # which contains pytest's folders.
    made = Path(tempfile.mkdtemp(dir="/var/tmp", prefix="gigafactory-"))
    yield made
    shutil.rmtree(made)


@pytest_asyncio.fixture
async def harness(folder: Path) -> AsyncIterator[LocalHarness]:
    async with a_local_harness(folder) as made:
        yield made


def furnished(harness: FactoryHarness, engine: str, url: str, **more: str) -> Mapping[str, str]:
    """Return the environment of a factory whose engine uses the model at a URL."""
    program = engines.program(engine)
    node = shutil.which("node")
    assert node is not None, "it was there to install the engine"
    if engine == "codex":
        config = harness.data_dir(FACTORY).engine_home("codex") / ".codex" / "config.toml"
        config.parent.mkdir(parents=True, exist_ok=True)
        config.write_text(PROVIDER.format(url=url))
    return {
        "PATH": os.pathsep.join((str(program.parent), str(Path(node).parent), "/usr/bin", "/bin")),
        "ANTHROPIC_API_KEY": "not-a-key",
        "ANTHROPIC_BASE_URL": url,
        "CODEX_API_KEY": "not-a-key",
        **more,
    }


async def submitted(harness: FactoryHarness, engine: str, **manifest: object) -> str:
    usual = {"engine": engine, "model": MODELS[engine], "yolo": True, "verify": "true"}
    return await harness.submit("Create hello.txt.", **usual | manifest)


@pytest.mark.parametrize("engine", ENGINES)
async def test_real_engine_result_is_verified_pushed_and_metered(
    harness: FactoryHarness, model: FakeModel, engine: str
) -> None:
    environ = furnished(harness, engine, model.url("create_file"))
    async with harness.factory(FACTORY, environ=environ, yolo_without_sandbox=True):
        job_id = await submitted(harness, engine, verify="grep -q Hello hello.txt")
        done = await harness.wait_until_idle(job_id)
        log = await harness.log(job_id)
        assert (done["stage"], done["result"]) == ("testing", "ok"), log
    assert harness.remote.text(f"aq/job/{job_id}", "hello.txt") == "Hello from the scripted model."
    assert "Done: hello.txt is created." in log
    [run] = await harness.runs(job_id)
    used = run["usage"]
    assert (used["engine"], used["model"]) == (engine, MODELS[engine])
    counted = [used[name] for name in ("tokensIn", "tokensCached", "tokensOut", "toolCalls")]
    assert counted == [1500, 1000, 52, 1]
    assert sum(used["tools"].values()) == 1
    # Claude reports its cost; the cost of Codex is estimated from the price list.
    assert (used["costUsd"], used["estimated"]) == COSTS[engine]
    assert run["versions"][engine][0].isdecimal()
    assert run["verify"]["passed"]
    assert list(harness.data_dir(FACTORY).run_registry.iterdir()) == []


@pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap is for Linux")
@pytest.mark.parametrize("engine", ENGINES)
async def test_real_engine_in_a_strict_sandbox_reaches_only_its_model(
    harness: FactoryHarness, model: FakeModel, engine: str, folder: Path
) -> None:
    await a_sandbox(folder, minimum="strict")
    url = model.url("create_file")
    environ = furnished(harness, engine, url)
    path = os.pathsep.join((environ["PATH"], search_path()))
    listed = (urlsplit(url).netloc,)
    async with harness.factory(
        FACTORY,
        environ={**environ, "PATH": path},
        sandbox="strict",
        allow_hosts=listed,
    ):
        job_id = await submitted(harness, engine, verify="grep -q Hello hello.txt")
        done = await harness.wait_until_idle(job_id)
        log = await harness.log(job_id)
        assert (done["stage"], done["result"]) == ("testing", "ok"), log
    assert harness.remote.text(f"aq/job/{job_id}", "hello.txt") == "Hello from the scripted model."


@pytest.mark.parametrize(
    ("engine", "credentials"),
    [
        # Claude reports the reset time of a usage limit only to subscriptions.
        ("claude", {"ANTHROPIC_API_KEY": "", "CLAUDE_CODE_OAUTH_TOKEN": "not-a-token"}),
        ("codex", {}),
    ],
)
async def test_engine_at_its_usage_limit_cools_down_until_its_reset(
    harness: FactoryHarness, model: FakeModel, engine: str, credentials: Mapping[str, str]
) -> None:
    environ = furnished(harness, engine, model.url("usage_limit"), **credentials)
    async with harness.factory(FACTORY, environ=environ, yolo_without_sandbox=True):
        before = datetime.now(UTC)
        job_id = await submitted(harness, engine)

        async def tried() -> bool:
            return "rate_limited" in [run["result"] for run in await harness.runs(job_id)]

        await until(tried)
        assert (await harness.job(job_id))["stage"] == "queued"
        seen = (await harness.api.get(f"/factories/{FACTORY}")).json()["engines"][engine]
    reset = datetime.fromisoformat(seen["coolingUntil"])
    # Codex reports the reset time without seconds.
    assert timedelta(minutes=58) < reset - before < timedelta(minutes=62)


@pytest.mark.parametrize("engine", ENGINES)
async def test_engine_with_rejected_credentials_is_unavailable_and_job_requeued(
    harness: FactoryHarness, model: FakeModel, engine: str
) -> None:
    environ = furnished(harness, engine, model.url("auth"))
    async with harness.factory(FACTORY, environ=environ, yolo_without_sandbox=True):
        job_id = await submitted(harness, engine)

        async def tried() -> bool:
            return "engine_unavailable" in [run["result"] for run in await harness.runs(job_id)]

        await until(tried)
        assert (await harness.job(job_id))["stage"] == "queued"
        seen = (await harness.api.get(f"/factories/{FACTORY}")).json()["engines"][engine]
        assert seen["unavailable"]


async def wait_until_midway(harness: FactoryHarness, job_id: str) -> None:
    """Wait until the shell command of the second step runs."""
    sign = harness.data_dir(FACTORY).worktree(job_id) / "step2.txt"
    await until(sign.exists)


@pytest.mark.parametrize("engine", ENGINES)
async def test_cancelled_engine_leaves_no_process_alive(
    harness: FactoryHarness, model: FakeModel, engine: str
) -> None:
    environ = furnished(harness, engine, model.url("three_steps"))
    async with harness.factory(FACTORY, environ=environ, yolo_without_sandbox=True) as agent:
        job_id = await submitted(harness, engine)
        await wait_until_midway(harness, job_id)
        [live] = run_registry.load_runs(harness.data_dir(FACTORY))
        # The shell command writes its file before `sleep` starts.
        await until(lambda: any("sleep 60" in stray.command for stray in find_orphans(live.mark)))
        await harness.act(job_id, "cancel")
        await until(lambda: not agent.running_jobs)
        assert find_orphans(live.mark) == []
        assert (await harness.job(job_id))["stage"] == "cancelled"
    assert harness.remote.commit_of(f"aq/job/{job_id}") is None


@pytest.mark.parametrize("engine", ENGINES)
async def test_interrupted_engine_resumes_its_session(
    harness: LocalHarness, model: FakeModel, engine: str
) -> None:
    environ = furnished(harness, engine, model.url("three_steps"))
    async with harness.factory(FACTORY, environ=environ, yolo_without_sandbox=True) as agent:
        job_id = await submitted(harness, engine)
        await wait_until_midway(harness, job_id)
        agent.drain()
        agent.drain()
        await until(lambda: not agent.running_jobs)

        async def handed_back() -> bool:
            stage: str = (await harness.job(job_id))["stage"]
            return stage == "queued"

        await until(handed_back)
    session = (await harness.job(job_id))["checkpoint"]["sessionId"]
    assert session
    # A job is not offered for a while to the factory that released it.
    harness.clock.advance(EXCLUSION_TTL)
    async with harness.factory(FACTORY, environ=environ, yolo_without_sandbox=True):
        done = await harness.wait_until_idle(job_id)
        log = await harness.log(job_id)
        assert (done["stage"], done["result"]) == ("testing", "ok"), log
    assert f"resumes session {session}" in log
    assert harness.remote.text(f"aq/job/{job_id}", "step1.txt") == "one"
    assert harness.remote.text(f"aq/job/{job_id}", "step3.txt") == "three"


@pytest.mark.parametrize("engine", ENGINES)
async def test_requested_change_reaches_the_engine_in_its_session(
    harness: FactoryHarness, model: FakeModel, engine: str
) -> None:
    environ = furnished(harness, engine, model.url("reviewed"))
    async with harness.factory(FACTORY, environ=environ, yolo_without_sandbox=True):
        job_id = await submitted(harness, engine, reviewPolicy="manual")
        first = (await harness.wait_until_idle(job_id, at="review"))["checkpoint"]
        wish = {"decision": "request-changes", "comment": "Say it twice."}
        answer = await harness.api.post(
            f"/jobs/{job_id}/review", json=wish | {"commit": first["commit"]}
        )
        assert answer.status_code == 200, answer.text
        second = (await harness.wait_until_idle(job_id, at="review"))["checkpoint"]
        log = await harness.log(job_id)
    runs = await harness.runs(job_id)
    # Both runs made two calls, though the second one goes on with the session of the first.
    assert [run["usage"]["tokensIn"] for run in runs] == [2400, 2400]
    assert len({run["usage"]["costUsd"] for run in runs}) == 1
    assert f"resumes session {first['sessionId']}" in log
    assert second["commit"] != first["commit"]
    assert harness.remote.text(first["commit"], "said.txt") == "once"
    assert harness.remote.text(second["commit"], "said.txt") == "once\ntwice"
    said = "A reviewer asks for this change:\n\nSay it twice."
    assert any(said in asked.prompt for asked in model.requests)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("yolo", [True, False])
async def test_real_engine_submits_a_child_of_its_composite(
    harness: FactoryHarness, model: FakeModel, engine: str, *, yolo: bool
) -> None:
    environ = furnished(harness, engine, model.url("hands_in"))
    child = {"name": "plan", "body": "Plan it.", "engine": engine, "model": MODELS[engine]}
    more = {"repo": str(harness.remote.path), "yolo": yolo, "verify": "true"}
    async with harness.factory(FACTORY, environ=environ, yolo_without_sandbox=True):
        result = await harness.submit("# The roadmap\n", kind="composite", children=[child | more])
        planner = (await harness.api.get(f"/jobs/{result}/dag")).json()["nodes"][1]["id"]
        await harness.wait_until_idle(planner)
        log = await harness.log(planner)
    nodes = (await harness.api.get(f"/jobs/{result}/dag")).json()["nodes"]
    assert [node["name"] for node in nodes[1:]] == ["plan", "from-the-agent"], log
    assert "gfj_" not in log
