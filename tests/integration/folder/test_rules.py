"""Settings of a folder: profiles, protected paths, and ships through a forge."""

from pathlib import Path

import httpx
from msgspec.structs import replace

from gigafactory.config.settings import FactorySettings, FolderSettings, ForgeSettings
from gigafactory.domain.job.job import Checkpoint, Stage
from gigafactory.folder.queue.record import write_record
from gigafactory.wiring.folder_process import open_runner
from tests.services import shared
from tests.services.aq import Shell
from tests.services.emulate import OWNER, TOKEN
from tests.support.factory.github_repo import HOST, GitHubRepo
from tests.support.folder_queue import ENVIRON, FolderHarness

PROFILE = """\
---
name: {name}
default-verify: {verify}
---
You are careful.
"""


def a_profile(place: FolderHarness, name: str, verify: str) -> Path:
    place.board.profiles.mkdir(exist_ok=True)
    file = place.board.profiles / f"{name}.md"
    file.write_text(PROFILE.format(name=name, verify=verify))
    return file


async def test_folder_profile_overrides_the_shipped_one(place: FolderHarness) -> None:
    a_profile(place, "qa", "echo ours")
    a_profile(place, "cook", "echo soup")
    place.drop("one", "true", profile="qa")
    place.drop("two", "true", profile="cook")
    place.drop("three", "true", profile="qa@1", verify="true")
    await place.run()
    assert "ours\n" in place.log("one")
    assert "soup\n" in place.log("two")
    assert [place.job(n).profile for n in ("one", "two", "three")] == ["qa@2", "cook@1", "qa@1"]
    assert b"You are careful." in bytes(place.record("one").manifest)
    assert b"You are careful." not in bytes(place.record("three").manifest)


async def test_a_changed_profile_is_a_new_version_and_changes_no_job(place: FolderHarness) -> None:
    a_profile(place, "cook", "echo soup")
    place.drop("early", "true", profile="cook", not_before="1d")
    await place.run()
    a_profile(place, "cook", "echo salad")
    place.drop("late", "true", profile="cook")
    place.drop("old", "true", profile="cook@1")
    await place.run()
    await place.run()
    jobs = [place.job(name).profile for name in ("early", "late", "old")]
    assert jobs == ["cook@1", "cook@2", "cook@1"]
    assert "salad\n" in place.log("late")
    assert "soup\n" in place.log("old")


async def test_invalid_profile_rejects_jobs_that_name_it(place: FolderHarness) -> None:
    a_profile(place, "cook", "echo soup").write_text("---\nname: cook\nsmell: good\n---\n")
    place.drop("one", "true", profile="cook")
    place.drop("two", "true", profile="qa", verify="true")
    assert (await place.run()).invalid == ("one.md",)
    assert "smell" in place.board.errors("one.md").read_text()
    assert place.job("two").profile == "qa@1"
    a_profile(place, "cook", "echo soup")
    assert place.shell.aq("requeue", "one").code == 0
    place.drop("three", "true", profile="baker")
    await place.run()
    assert place.job("one").stage == "testing"
    assert "cook, " in place.board.errors("three.md").read_text()


async def test_change_to_a_protected_path_needs_review_and_a_ship_decision(
    place: FolderHarness,
) -> None:
    place.settings = FolderSettings(protected_paths=("ci/**",))
    options = {"verify": "true", "ship_policy": "auto"}
    place.drop_repo_job("guarded", "mkdir ci; echo x > ci/build", **options)
    place.drop_repo_job("free", "echo x > free", **options)
    await place.run()
    job = place.job("guarded")
    assert (job.stage, job.flags) == ("review", ("protected_path",))
    assert place.job("free").stage == "shipped"
    place.act("guarded", "approve")
    await place.run()
    assert place.job("guarded").stage == "testing"
    place.act("guarded", "ship")
    await place.run()
    assert place.remote.text("main", "ci/build") == "x"


def test_folder_settings_apply_from_any_working_folder(place: FolderHarness) -> None:
    (place.board.root / "aq.toml").write_text('[folder]\nprotected-paths = ["*.lock"]\n')
    place.drop_repo_job("guarded", "echo x > uv.lock", verify="true")
    elsewhere = Shell(place.folder, place.shell.environ)
    ran = elsewhere.aq("run", "--once", "queue")
    assert ran.code == 0, ran.err
    assert place.columns_of("guarded") == ["review"]
    (place.board.root / "aq.toml").write_text("[folder]\nprotectted-paths = []\n")
    wrong = elsewhere.aq("run", "--once", "queue")
    assert wrong.code == 1
    assert "folder.protected-paths" in wrong.err


async def test_folder_job_ships_through_the_forge_of_its_repo(
    place: FolderHarness, services: Path
) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    address = shared.address(services, "emulate")
    async with httpx.AsyncClient(base_url=address, headers=headers) as http:
        hub = GitHubRepo(http)
        await hub.create()
        place.drop("hello", "true", repo="notes", verify="true")
        await (await place.runner(wanted=lambda _: False)).run(once=True)
        kept = place.record("hello")
        branch = f"aq/job/{kept.job.id}"
        commit = await hub.push(branch, await hub.commit_of("main"))
        work = Checkpoint(branch=branch, commit=commit, factory_id="this")
        done = replace(kept.job, stage=Stage.TESTING, checkpoint=work)
        write_record(place.board, replace(kept, job=done), ())
        place.act("hello", "ship")
        settings = FactorySettings(
            id="this",
            sandbox="none",
            addresses={"notes": f"https://{HOST}/{OWNER}/{hub.name}.git"},
            forges={HOST: ForgeSettings(token_env="HUB_TOKEN", api=hub.api)},
        )
        environ = ENVIRON | {"HUB_TOKEN": TOKEN}
        runner = await open_runner(settings, place.reopen(), environ=environ)
        await runner.run(once=True)
        assert place.columns_of("hello") == ["shipped"], place.job("hello").reason
        assert [pull["merged_at"] is not None for pull in await hub.pulls()] == [True]
