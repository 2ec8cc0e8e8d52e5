"""The same job files have the same effect in a folder and with a coordinator and factory."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec

from gigafactory.config.settings import FolderSettings
from gigafactory.domain.manifest.encoder import (
    manifest_to_json,
    profile_to_json,
)
from gigafactory.domain.manifest.job_file import parse_job_file
from gigafactory.domain.manifest.profile import parse_profile_file
from gigafactory.folder.queue.record import events_of
from tests.support.factory.local_fleet import FactoryHarness, a_local_harness
from tests.support.folder_queue import FolderHarness
from tests.support.polling import until

USUAL = "product: notes\nengine: command\n"
IN_REPO = USUAL + "repo: REPO\n"
CORPUS = {
    "plain": (USUAL, "echo words"),
    "verified": (IN_REPO + "verify: grep -q hello a.txt\n", "echo hello > a.txt"),
    "shipped": (IN_REPO + "verify: 'true'\nship-policy: auto\n", "echo x > shipped.txt"),
    "crash": (IN_REPO, "echo x > half.txt; exit 3"),
    "unverified": (IN_REPO + "verify: echo no; exit 1\n", "echo x > b.txt"),
    "out-of-scope": (IN_REPO + "allowed-scope: [docs/**]\n", "echo x > c.txt"),
    "retried": (USUAL + "retry: {max: 1, backoff: 0s}\n", "exit 1"),
    "persona": (IN_REPO + "profile: docs-writer\nverify: 'true'\n", "echo x > README.md"),
    "report": (USUAL + "verify: 'true'\nship: none\nship-policy: auto\n", "echo the report"),
    "after": (USUAL + "deps: [report]\nverify: 'true'\nbudget: {wall: 10m}\n", "echo after"),
    "hopeless": (USUAL + "deps: [crash]\non-dep-failure: fail\n", "echo never"),
    "unchanged": (IN_REPO + "priority: low\ntimeout: 5m\n", "true"),
    "guarded": (IN_REPO + "verify: 'true'\nship-policy: auto\n", "mkdir ci; echo x > ci/build"),
    "own-role": (IN_REPO + "profile: qa\n", "echo x > own.txt"),
    "new-role": (USUAL + "profile: cook\n", "echo soup"),
    "shipped-role": (USUAL + "profile: qa@1\nverify: 'true'\n", "echo x"),
}
TEMPLATE = (USUAL + "schedule: 0 3 * * *\nverify: 'true'\nship: none\n", "echo words")
PROTECTED = "ci/**"
ROLES = {
    "qa": "---\nname: qa\ndefault-verify: test -s own.txt\n---\nWe test it ourselves.\n",
    "cook": "---\nname: cook\nreview-policy: manual\n---\nYou cook.\n",
}
LATER = timedelta(days=2)
OF_THE_FLEET_ALONE = {"offered", "offer_expired"}


def text(name: str, repo: Path) -> bytes:
    settings, body = CORPUS.get(name, TEMPLATE)
    return f"---\n{settings.replace('REPO', str(repo))}---\n{body}\n".encode()


def seen(
    manifest: Any,  # noqa: ANN401 - any JSON
    repo: Path,
    job: dict[str, Any],
    story: list[str],
) -> dict[str, Any]:
    """Return the parts of a job that must be the same in both places."""
    data = json.loads(json.dumps(manifest).replace(str(repo), "REPO"))
    parts = ("name", "title", "stage", "result", "attempts", "priority", "flags")
    kinds = [kind for kind in story if kind not in OF_THE_FLEET_ALONE]
    return {"manifest": data, "story": kinds} | {part: job[part] for part in parts}


def a_place(folder: Path) -> FolderHarness:
    """Create a folder with protected paths and profiles."""
    place = FolderHarness(folder)
    place.settings = FolderSettings(protected_paths=(PROTECTED,))
    place.board.profiles.mkdir()
    for name, role in ROLES.items():
        (place.board.profiles / f"{name}.md").write_text(role)
    return place


async def set_up(yard: FactoryHarness) -> None:
    """Give the product of the jobs the same protected paths and profiles."""
    wish = {"protectedPaths": [PROTECTED]}
    answer = await yard.api.put("/products/notes", json=wish)
    assert answer.is_success, answer.text
    for role in ROLES.values():
        result = profile_to_json(parse_profile_file(role))
        answer = await yard.api.post("/profiles", json=result)
        assert answer.is_success, answer.text


async def through_the_folder(folder: Path) -> dict[str, dict[str, Any]]:
    place = a_place(folder)
    for name in CORPUS:
        (place.board.column("inbox") / f"{name}.md").write_bytes(text(name, place.remote.path))
    await place.run()
    return found_in(place)


def found_in(place: FolderHarness) -> dict[str, dict[str, Any]]:
    found = {}
    for kept in place.queue.look().values():
        job = msgspec.json.decode(msgspec.json.encode(kept.job))
        story = [event.type for event in events_of(place.board, kept)]
        manifest = msgspec.json.decode(kept.manifest)
        found[kept.job.name] = seen(manifest, place.remote.path, job, story)
    return found


async def through_the_service(folder: Path) -> dict[str, dict[str, Any]]:
    async with a_local_harness(folder) as yard, yard.factory("this"):
        await set_up(yard)
        repo = yard.remote.path
        files = [parse_job_file(text(name, repo), stem=name) for name in CORPUS]
        asked = [{"manifest": manifest_to_json(file.manifest), "body": file.body} for file in files]
        answer = await yard.api.post("/jobs", json={"jobs": asked})
        assert answer.status_code == 201, answer.text
        ids = {job["name"]: job["id"] for job in answer.json()["jobs"]}
        return {name: await _rested(yard, job_id) for name, job_id in ids.items()}


async def _rested(yard: FactoryHarness, job_id: str) -> dict[str, Any]:
    await yard.wait_until_idle(job_id)
    data = (await yard.api.get(f"/jobs/{job_id}", params={"include": "manifest"})).json()
    guarded = "protected_path" in data["flags"]
    if data["manifest"]["shipPolicy"] == "auto" and not guarded:
        data |= await yard.wait_until_idle(job_id, at="shipped")
    return seen(data["manifest"], yard.remote.path, data, await yard.event_types(job_id))


async def test_job_files_have_the_same_result_in_a_folder_and_at_a_service(
    tmp_path: Path,
) -> None:
    here = await through_the_folder(tmp_path / "folder")
    there = await through_the_service(tmp_path / "service")
    assert here.keys() == there.keys() == CORPUS.keys()
    for name in CORPUS:
        assert here[name] == there[name], name
    assert {str(each["stage"]) for each in here.values()} == {
        *("review", "testing", "shipped", "failed", "dead_letter"),
    }


async def scheduled_in_the_folder(folder: Path) -> dict[str, dict[str, Any]]:
    place = a_place(folder)
    (place.board.column("inbox") / "nightly.md").write_bytes(text("nightly", folder))
    await place.run()
    place.clock.advance(LATER)
    await place.run()
    return found_in(place)


async def scheduled_at_the_service(folder: Path) -> dict[str, dict[str, Any]]:
    async with a_local_harness(folder) as yard, yard.factory("this") as agent:
        file = parse_job_file(text("nightly", folder), stem="nightly")
        template = await yard.submit(file.body, **manifest_to_json(file.manifest) | {"repo": None})
        yard.clock.advance(LATER)
        agent.on_capacity_change()
        await until(lambda: _has(yard, template, "ticked"))
        copied = (await yard.api.get(f"/jobs/{template}/events")).json()["events"][-1]
        copy: str = copied["data"]["copy"]
        await yard.wait_until_idle(copy)
        result = {}
        for job_id in (template, copy):
            job = (await yard.api.get(f"/jobs/{job_id}", params={"include": "manifest"})).json()
            result[job["name"]] = seen(job["manifest"], folder, job, await yard.event_types(job_id))
        return result


async def _has(yard: FactoryHarness, job_id: str, kind: str) -> bool:
    return kind in await yard.event_types(job_id)


async def test_schedule_has_the_same_result_in_a_folder_and_at_a_service(tmp_path: Path) -> None:
    here = await scheduled_in_the_folder(tmp_path / "folder")
    there = await scheduled_at_the_service(tmp_path / "service")
    assert here == there
    stages = {name.partition("-")[0]: each["stage"] for name, each in here.items() if "-" in name}
    assert (here["nightly"]["stage"], stages) == ("blocked", {"nightly": "testing"})
