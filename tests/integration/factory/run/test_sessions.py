"""The usage of an engine's session is counted between runs, out of the agent's reach."""

from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest
import pytest_asyncio

from gigafactory.engines.codex import CODEX
from tests.services.few_tools import search_path
from tests.support.factory.fake_tools import program
from tests.support.factory.local_fleet import FactoryHarness, a_local_harness
from tests.support.factory.scripted_agent import print_json

TRAPS = {
    "a lie": """printf '{"session":"s1","usage":{"tokens_in":100000}}' > "$file" """,
    "a pipe": 'mkfifo "$file"',
    "an endless file": 'ln -s /dev/zero "$file"',
}


@pytest_asyncio.fixture
async def harness(tmp_path: Path) -> AsyncIterator[FactoryHarness]:
    async with a_local_harness(tmp_path) as made:
        yield made


def counting_codex(folder: Path) -> Mapping[str, str]:
    """Write a `codex` whose session counts 1000 tokens a turn; return the environment."""
    totals = "\n".join(
        f"{at}) {print_json(type='turn.completed', usage={'input_tokens': 1000 * at})} ;;"
        for at in (1, 2)
    )
    body = f"""case "$1" in
  --version) echo codex-cli 0.150.0; exit ;;
  --help|exec) case "$*" in *--help*) echo '{" ".join(CODEX.flags)}'; exit ;; esac ;;
esac
cat > /dev/null
echo turn >> "$HOME/turns"; echo line >> page.txt
{print_json(type="thread.started", thread_id="s1")}
{print_json(type="turn.started")}
case $(($(wc -l < "$HOME/turns"))) in
{totals}
esac"""
    program(folder, "codex", body)
    return {"PATH": f"{folder}:{search_path()}"}


@pytest.mark.parametrize("trap", TRAPS)
async def test_a_job_does_not_change_what_its_session_has_used(
    harness: FactoryHarness, tmp_path: Path, trap: str
) -> None:
    verify = f'file="$HOME/.aq/session.json"; mkdir -p "$HOME/.aq"; rm -f "$file"; {TRAPS[trap]}'
    async with harness.factory(environ=counting_codex(tmp_path / "bin")):
        job_id = await harness.submit("Write it.", engine="codex", verify=verify)
        await harness.wait_until_idle(job_id, at="testing")
        await harness.act(job_id, "request-changes", comment="More.")
        await harness.wait_until_idle(job_id, at="testing")
        runs = await harness.runs(job_id)
    assert [run["usage"]["tokensIn"] for run in runs if run.get("usage")] == [1000, 1000]
