"""One corpus of job files means the same in a folder and at a coordinator with a factory."""

import json
from pathlib import Path
from typing import Any

import msgspec

from gigafactory.domain.job_file import parse_job_file
from gigafactory.domain.writing import manifest_json
from gigafactory.folder.record import events_of
from tests.integration.factory.yard import Yard, a_yard
from tests.integration.folder.queues import Place

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
}
OF_THE_FLEET_ALONE = {"offered", "offer_expired"}


def text(name: str, repo: Path) -> bytes:
    settings, body = CORPUS[name]
    return f"---\n{settings.replace('REPO', str(repo))}---\n{body}\n".encode()


def seen(
    manifest: Any,  # noqa: ANN401 - any JSON
    repo: Path,
    job: dict[str, Any],
    story: list[str],
) -> dict[str, Any]:
    """What must be the same of a job, wherever it ran."""
    told = json.loads(json.dumps(manifest).replace(str(repo), "REPO"))
    parts = ("name", "title", "stage", "result", "attempts", "priority", "flags")
    kinds = [kind for kind in story if kind not in OF_THE_FLEET_ALONE]
    return {"manifest": told, "story": kinds} | {part: job[part] for part in parts}


async def through_the_folder(folder: Path) -> dict[str, dict[str, Any]]:
    place = Place(folder)
    for name in CORPUS:
        (place.board.column("inbox") / f"{name}.md").write_bytes(text(name, place.remote.path))
    await place.run()
    found = {}
    for kept in place.queue.look().values():
        job = msgspec.json.decode(msgspec.json.encode(kept.job))
        story = [event.type for event in events_of(place.board, kept)]
        manifest = msgspec.json.decode(kept.manifest)
        found[kept.job.name] = seen(manifest, place.remote.path, job, story)
    return found


async def through_the_service(folder: Path) -> dict[str, dict[str, Any]]:
    async with a_yard(folder) as yard, yard.factory("this"):
        repo = yard.remote.path
        files = [parse_job_file(text(name, repo), stem=name) for name in CORPUS]
        asked = [{"manifest": manifest_json(file.manifest), "body": file.body} for file in files]
        answer = await yard.people.post("/jobs", json={"jobs": asked})
        assert answer.status_code == 201, answer.text
        ids = {job["name"]: job["id"] for job in answer.json()["jobs"]}
        return {name: await _rested(yard, job_id) for name, job_id in ids.items()}


async def _rested(yard: Yard, job_id: str) -> dict[str, Any]:
    await yard.rests(job_id)
    told = (await yard.people.get(f"/jobs/{job_id}", params={"include": "manifest"})).json()
    if told["manifest"]["shipPolicy"] == "auto":
        told |= await yard.rests(job_id, at="shipped")
    return seen(told["manifest"], yard.remote.path, told, await yard.story(job_id))


async def test_a_corpus_of_job_files_means_the_same_in_a_folder_and_at_a_service(
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
