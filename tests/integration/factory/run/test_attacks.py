"""Attacks of people, repos and agents on a factory: each one fails with a clear reason."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.services.few_tools import search_path
from tests.support.factory.git_repo import plain_git, planted_program
from tests.support.factory.local_fleet import FactoryHarness, a_local_harness
from tests.support.polling import until

LONG = "x" * 10_000
SECRET = "correct-horse-battery-staple"
ENVIRON = {"PATH": search_path(), "DEPLOY_TOKEN": SECRET}


@pytest_asyncio.fixture
async def harness(tmp_path: Path) -> AsyncIterator[FactoryHarness]:
    async with a_local_harness(tmp_path) as made:
        yield made


async def ended(
    harness: FactoryHarness, body: str = "touch x", **manifest: object
) -> dict[str, Any]:
    async with harness.factory():
        return await harness.wait_until_idle(await harness.submit(body, **manifest))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("name", value) for value in ("../../x", "a\0b", LONG, "-x", "a/b", ".")),
        *(("repo", value) for value in ("../../x", "/srv/../etc", "a\0b", LONG)),
        *(("repo", value) for value in ("--upload-pack=touch x", "ext::sh -c touch% x", "fd::7")),
        *(("repo", value) for value in ("file:///etc", "ssh://-oProxyCommand=x/y", "git@-x:y")),
        *(("repo", value) for value in ("https://user:word@host/x.git", "ftp://host/x.git")),
        *(("base", value) for value in ("../../x", "a\0b", LONG, "--upload-pack=x", "a b", "a..b")),
        *(("cwd", value) for value in ("/srv/../etc", "a\0b", LONG)),
    ],
)
async def test_names_and_paths_with_unsafe_characters_are_rejected(
    harness: FactoryHarness, field: str, value: str
) -> None:
    asked = {"manifest": {"engine": "command", field: value}, "body": "touch x"}
    answer = await harness.api.post("/jobs", json=asked)
    assert answer.status_code == 422
    assert ("NUL" if "\0" in value else field) in answer.text


@pytest.mark.parametrize(
    "repo",
    [
        "https://127.0.0.1/me/notes.git",
        "https://localhost/me/notes.git",
        "https://[::1]/me/notes.git",
        "https://0x7f000001/me/notes.git",
        "https://169.254.169.254/latest/notes.git",
        "https://metadata.google.internal/me/notes.git",
        "ssh://git@127.0.0.1/me/notes.git",
        "git@localhost:me/notes.git",
        "http://example.com/me/notes.git",
        "/etc",
    ],
)
async def test_repo_address_on_a_private_network_is_rejected(
    harness: FactoryHarness, repo: str
) -> None:
    job = await ended(harness, repo=repo)
    assert (job["stage"], job["result"]) == ("failed", "setup_failed"), job["reason"]
    assert not any(harness.data_dir().mirrors.iterdir()), "nothing was fetched"


async def test_git_commands_planted_by_an_agent_are_not_run(
    harness: FactoryHarness,
) -> None:
    program, trace = planted_program(harness.folder, "planted")
    keys = ("core.fsmonitor", "core.sshCommand", "filter.evil.clean", "filter.evil.smudge")
    body = f"""
    set -e
    for key in {" ".join(keys)} diff.external; do git config $key {program}; done
    mkdir hooks
    for name in pre-push post-checkout reference-transaction post-index-change; do
      ln -s {program} hooks/$name
    done
    git config core.hooksPath $PWD/hooks
    echo '* filter=evil diff=evil' > .gitattributes
    printf '[include]\\n path = evil\\n' > .gitconfig
    """
    job = await ended(harness, body)
    assert job["result"] == "ok", job["reason"]
    assert not trace.exists()


async def test_symlinks_made_by_an_agent_expose_no_host_file(harness: FactoryHarness) -> None:
    secret = harness.folder / "secret"
    secret.write_text(SECRET)
    job = await ended(harness, f"ln -s {secret} link; ln -s {harness.folder} folder; echo x > x")
    commit = job["checkpoint"]["commit"]
    listed = plain_git(harness.remote.path, "ls-tree", "-r", commit).splitlines()
    assert {line.split("\t")[1]: line.split()[0] for line in listed} == {
        "README.md": "100644",
        "folder": "120000",
        "link": "120000",
        "x": "100644",
    }
    assert SECRET not in harness.remote.text(commit, "link")


@pytest.mark.parametrize(
    "body",
    [
        'echo "$DEPLOY_TOKEN" > notes',
        'printf %s "$DEPLOY_TOKEN" | base64 > notes',
        'touch "$DEPLOY_TOKEN"',
        'ln -s "$DEPLOY_TOKEN" link',
        'mkdir -p a; printf "\\0\\1%s\\0" "$DEPLOY_TOKEN" > a/binary',
        "T=$DEPLOY_TOKEN; git checkout -qb $T; echo $T > x; git add x; git commit -qm $T",
    ],
)
async def test_factory_secret_is_never_pushed_in_any_encoding(
    harness: FactoryHarness, body: str
) -> None:
    async with harness.factory(environ=ENVIRON, env=("DEPLOY_TOKEN",)):
        job = await harness.wait_until_idle(await harness.submit(body, env=["DEPLOY_TOKEN"]))
    assert (job["stage"], job["result"]) == ("failed", "scope_violation"), job["reason"]
    assert SECRET not in str(job)
    for branch in harness.remote.branches():
        assert harness.remote.commit_of(branch) == harness.start
    assert plain_git(harness.remote.path, "fsck", "--unreachable", "--no-reflogs") == ""


async def test_commit_message_and_branch_of_an_agent_are_not_pushed(
    harness: FactoryHarness,
) -> None:
    body = 'git checkout -qb "my-branch"; echo x > x; git add x; git commit -qm "my message"'
    job = await ended(harness, body)
    assert job["result"] == "ok", job["reason"]
    assert "my-branch" not in harness.remote.branches()
    assert "my message" not in harness.remote.log(f"aq/job/{job['id']}")


async def test_verify_that_writes_outside_the_scope_is_a_scope_violation(
    harness: FactoryHarness,
) -> None:
    job = await ended(
        harness,
        "mkdir docs; echo x > docs/x",
        allowedScope=["docs/**"],
        verify="echo y > deploy.sh",
    )
    assert (job["stage"], job["result"]) == ("failed", "scope_violation"), job["reason"]
    assert "deploy.sh" in job["reason"]
    assert harness.remote.commit_of(f"aq/job/{job['id']}") is None


async def test_verify_that_changes_a_protected_path_requires_review(
    harness: FactoryHarness,
) -> None:
    await harness.api.put("/products/notes", json={"protectedPaths": ["ci/**"]})
    job = await ended(harness, "touch x", verify="mkdir -p ci; touch ci/deploy", shipPolicy="auto")
    assert job["stage"] == "review", job["reason"]


async def test_newly_protected_path_requires_another_ship_decision(
    harness: FactoryHarness,
) -> None:
    async with harness.factory():
        job_id = await harness.submit("mkdir ci; touch ci/deploy")
        assert (await harness.wait_until_idle(job_id))["stage"] == "testing"
        await harness.api.put("/products/notes", json={"protectedPaths": ["ci/**"]})
        await harness.act(job_id, "ship")

        async def tried() -> bool:
            return "ship_failed" in await harness.event_types(job_id)

        await until(tried)
        job = await harness.job(job_id)
        assert (job["stage"], harness.remote.commit_of("main")) == ("testing", harness.start)
        assert "ci/deploy" in job["reason"]
        assert "protected_path" in job["flags"]
        await harness.act(job_id, "ship")
        await harness.wait_until_idle(job_id, at="shipped")


async def test_scope_violation_overridden_by_a_reviewer_is_shipped(harness: FactoryHarness) -> None:
    async with harness.factory():
        job_id = await harness.submit("touch x", allowedScope=["docs/**"])
        assert (await harness.wait_until_idle(job_id))["result"] == "scope_violation"
        await harness.act(job_id, "override-scope", reason="it is fine")
        commit = (await harness.job(job_id))["checkpoint"]["commit"]
        await harness.act(job_id, "approve", commit=commit)
        await harness.act(job_id, "ship")
        await harness.wait_until_idle(job_id, at="shipped")
    assert harness.remote.text("main", "x") == ""
