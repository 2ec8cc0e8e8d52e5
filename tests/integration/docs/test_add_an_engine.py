"""The page on adding an engine: its code is installed unchanged and runs a job."""

import asyncio
import re
import subprocess
import tomllib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from gigafactory.factory.agent.membership import FleetMembership, save_membership
from tests.services.aq import AQ, Shell, environment
from tests.support.factory.fake_tools import program
from tests.support.factory.local_fleet import FactoryHarness, a_local_harness

PAGE = Path(__file__).resolve().parents[3] / "docs" / "howto" / "add-an-engine.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
AGENT = """case "$*" in
  --version) echo 1.2.3; exit ;;
  --help) echo 'usage: mine --json --yes'; exit ;;
esac
echo "a key of ${#MINE_API_KEY}" > asked; cat >> asked
echo '{"type": "step", "says": "Hello, README."}'
echo Hello >> README.md
echo '{"type": "done"}'"""


@pytest_asyncio.fixture
async def harness(tmp_path: Path) -> AsyncIterator[FactoryHarness]:
    async with a_local_harness(tmp_path) as made:
        made.remote.commit({"Makefile": "test:\n\tgrep Hello README.md\n"})
        yield made


def install(site: Path, source: str, project: str) -> None:
    """Install the package into a folder like an installer does."""
    [(group, points)] = tomllib.loads(project)["project"]["entry-points"].items()
    [module] = {value.partition(":")[0] for value in points.values()}
    info = site / f"{module}-1.0.dist-info"
    info.mkdir(parents=True)
    (site / f"{module}.py").write_text(source)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    named = "\n".join(f"{name} = {value}" for name, value in points.items())
    (info / "entry_points.txt").write_text(f"[{group}]\n{named}\n")


async def test_engine_added_as_documented_runs_a_job(harness: FactoryHarness) -> None:
    blocks = dict(BLOCK.findall(PAGE.read_text()))
    site, tools = harness.folder / "site", harness.folder / "tools"
    install(site, blocks["python"], blocks["toml"])
    program(tools, "mine", AGENT)
    save_membership(
        harness.data_dir(),
        FleetMembership(harness.server.url, "mac-1", await harness.token("mac-1")),
    )
    path = f"{tools}:{Path(AQ).parent}:/usr/local/bin:/usr/bin:/bin"
    factory = Shell(
        harness.folder,
        {
            "AQ_DATA": str(harness.folder / "disk-mac-1"),
            "AQ_FACTORY_REPOS": str(harness.folder),
            "AQ_FACTORY_SANDBOX": "none",
            "PYTHONPATH": str(site),
            "PATH": path,
            "MINE_API_KEY": "0123456789abcdef",
        },
    )
    token = harness.api.headers["authorization"].removeprefix("Bearer ")
    typed = blocks["sh"].replace("/home/me/notes", str(harness.remote.path))
    known = {
        "AQ_FLEET_API": harness.server.url,
        "AQ_FLEET_TOKEN": token,
        "AQ_PRODUCT_ID": "notes",
        "PATH": path,
    }
    ran, tried = await asyncio.gather(
        asyncio.to_thread(factory.aq, "factory", "run", "--once"),
        asyncio.to_thread(
            subprocess.run,
            ["bash", "-eu", "-c", typed],
            cwd=harness.folder,
            env=environment(harness.folder, **known),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        ),
    )
    assert (ran.code, tried.returncode) == (0, 0), ran.err + tried.stderr
    assert "Hello, README.\n" in tried.stdout
    job = await harness.job("say-hello-in-the-readme")
    assert (job["stage"], job["result"]) == ("testing", "ok"), job["reason"]
    [run] = await harness.runs(job["id"])
    assert (run["engine"], run["versions"]["mine"]) == ("mine", "1.2.3")
    asked = harness.remote.text(job["checkpoint"]["commit"], "asked")
    assert "a key of 16\n" in asked
    assert "Say hello in the README" in asked
