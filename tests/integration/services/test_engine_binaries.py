"""The coding agents of the suite are real and work with the scripted model."""

import os
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.services import engines
from tests.services.fake_model import FakeModel, fake_model

INSTALL_MAX_S = 900


@pytest.fixture
def model() -> Iterator[FakeModel]:
    with fake_model() as running:
        yield running


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    folder = tmp_path / "repo"
    subprocess.run(["git", "init", "--quiet", folder], check=True)
    return folder


def run(argv: list[str], *, repo: Path, prompt: str, **environ: str) -> str:
    home = repo.with_name("home")
    home.mkdir()
    done = subprocess.run(
        argv,
        cwd=repo,
        env={"PATH": os.environ["PATH"], "HOME": str(home)} | environ,
        input=prompt,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.timeout(INSTALL_MAX_S)
def test_real_claude_creates_the_file(model: FakeModel, repo: Path) -> None:
    said = run(
        [
            *(str(engines.program("claude")), "-p", "--output-format", "stream-json", "--verbose"),
            *("--dangerously-skip-permissions", "--model", "claude-sonnet-4-5"),
        ],
        repo=repo,
        prompt="Create hello.txt",
        IS_SANDBOX="1",
        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
        CLAUDE_CODE_MAX_RETRIES="2",
        ANTHROPIC_API_KEY="fake",
        ANTHROPIC_BASE_URL=model.url("create_file", "claude"),
    )
    assert (repo / "hello.txt").read_text() == "Hello from the scripted model.\n"
    assert '"is_error":false' in said.splitlines()[-1]
    turns = [asked for asked in model.requests if not asked.errand]
    assert [asked.turn for asked in turns] == [0, 1]
    assert {asked.dialect for asked in turns} == {"anthropic"}


@pytest.mark.timeout(INSTALL_MAX_S)
def test_real_codex_creates_the_file(model: FakeModel, repo: Path) -> None:
    url = model.url("create_file", "codex")
    provider = f'{{name="fake",base_url="{url}/v1",env_key="FAKE_KEY",wire_api="responses"}}'
    said = run(
        [
            *(str(engines.program("codex")), "exec", "--json", "-m", "gpt-5.5"),
            *("--dangerously-bypass-approvals-and-sandbox", "-c", "analytics.enabled=false"),
            *("--disable", "plugins", "-c", "model_provider=fake"),
            *("-c", f"model_providers.fake={provider}", "-"),
        ],
        repo=repo,
        prompt="Create hello.txt",
        FAKE_KEY="fake",
    )
    assert (repo / "hello.txt").read_text() == "Hello from the scripted model.\n"
    assert "turn.completed" in said.splitlines()[-1]
    turns = [asked for asked in model.requests if not asked.errand]
    assert [asked.turn for asked in turns] == [0, 1]
    assert {asked.dialect for asked in turns} == {"responses"}


def test_installed_engine_is_found_without_npm(tmp_path: Path) -> None:
    package = engines.PACKAGES["codex"]
    place = tmp_path / "engines" / f"codex-{package.version}" / "node_modules" / ".bin"
    place.mkdir(parents=True)
    (place / "codex").touch()
    with ThreadPoolExecutor() as pool:
        found = set(pool.map(lambda _: engines.program("codex", folder=tmp_path), range(4)))
    assert found == {place / "codex"}
