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


def counting_codex(folder: Path, inside: str = "") -> Mapping[str, str]:
    """Write a `codex` whose session counts 1000 tokens a turn; return the environment.

    The commands `inside` run within each turn.
    """
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
{inside}
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


async def test_usage_from_a_file_that_the_agent_can_edit_is_an_estimate(
    harness: FactoryHarness, tmp_path: Path
) -> None:
    result = {"total_token_usage": {"input_tokens": 7}}
    record = {
        "timestamp": "2999-01-01T00:00:00Z",
        "payload": {"type": "token_count", "info": result},
    }
    body = f"""folder="$HOME/.codex/sessions/2026/11/18"; mkdir -p "$folder"
{print_json(**record)} > "$folder/rollout-1-s1.jsonl"
exit 1"""
    async with harness.factory(environ=counting_codex(tmp_path / "bin", body)):
        job_id = await harness.submit("Write it.", engine="codex")
        await harness.wait_until_idle(job_id)
        runs = await harness.runs(job_id)
    assert {(run["usage"]["tokensIn"], run["usage"]["estimated"]) for run in runs} == {(7, True)}
