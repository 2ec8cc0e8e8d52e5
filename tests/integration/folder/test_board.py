"""Jobs of a folder move through its columns as their manifests require."""

from itertools import pairwise

import pytest

from tests.support.folder_queue import FolderHarness


async def test_job_moves_through_all_folders_into_the_repo(place: FolderHarness) -> None:
    place.drop_repo_job("hello", "echo hello > hello.txt", verify="grep -q hello hello.txt")
    done = await place.run()
    assert not done.failed
    assert place.columns_of("hello") == ["testing"]
    job = place.job("hello")
    assert (job.stage, job.result, job.lease) == ("testing", "ok", None)
    assert job.head == place.remote.commit_of(f"aq/job/{job.id}")
    place.act("hello", "ship")
    await place.run()
    assert place.columns_of("hello") == ["shipped"]
    assert place.remote.text("main", "hello.txt") == "hello"
    assert place.event_types("hello") == [
        *("submitted", "assigned", "started", "checkpoint"),
        *("diff_added", "checkpoint", "usage", "verify_passed", "diff", "tested"),
        *("ship_requested", "assigned", "ship_intent", "shipped"),
    ]
    assert "aq: ended: ok\n" in place.log("hello")


async def test_run_keeps_its_usage_and_times(place: FolderHarness) -> None:
    place.drop("count", """echo '{"usage": {"tokensIn": 7, "costUsd": 0.5}}'""", verify="true")
    await place.run()
    (run,) = place.record("count").runs
    assert (run.result, run.number, run.engine) == ("ok", 1, "command")
    assert run.started_at is not None
    assert run.ended_at is not None
    assert run.usage is not None
    assert (run.usage.tokens_in, run.usage.cost_nano_usd) == (7, 500_000_000)


async def test_job_without_verify_waits_for_review(place: FolderHarness) -> None:
    place.drop_repo_job("page", "echo x > page")
    assert not (await place.run()).failed
    assert place.columns_of("page") == ["review"]
    place.act("page", "approve")
    assert place.columns_of("page") == ["testing"]
    place.act("page", "ship")
    await place.run()
    assert place.columns_of("page") == ["shipped"]
    assert place.remote.text("main", "page") == "x"


async def test_requested_changes_continue_from_the_work(place: FolderHarness) -> None:
    place.drop_repo_job("page", "echo line >> page")
    await place.run()
    place.act("page", "request-changes", reason="once more")
    assert place.columns_of("page") == ["inbox"]
    await place.run()
    job = place.job("page")
    assert place.remote.text(job.head or "", "page") == "line\nline"


async def test_rejected_job_fails_and_can_be_requeued(place: FolderHarness) -> None:
    place.drop_repo_job("page", "echo x > page")
    await place.run()
    place.act("page", "reject", reason="no")
    assert place.columns_of("page") == ["failed"]
    assert place.job("page").result == "rejected"
    place.act("page", "requeue", fresh=True)
    assert place.columns_of("page") == ["inbox"]


async def test_auto_ship_policy_ships_before_the_runner_ends(place: FolderHarness) -> None:
    place.drop_repo_job("auto", "echo x > x", verify="true", ship_policy="auto")
    await place.run()
    assert place.columns_of("auto") == ["shipped"]
    assert place.remote.text("main", "x") == "x"


@pytest.mark.parametrize(
    ("body", "manifest", "result"),
    [
        ("exit 3", {}, "crash"),
        ("true", {}, "no_change"),
        ("echo x > x", {"verify": "exit 1"}, "verify_failed"),
        ("echo x > x", {"setup": "exit 1"}, "setup_failed"),
        ("echo x > x", {"allowed_scope": "[docs/**]"}, "scope_violation"),
        ("sleep 600", {"budget": "{wall: 1s}"}, "budget_exceeded"),
    ],
)
async def test_failed_run_has_one_result_class_and_a_reason(
    place: FolderHarness, body: str, manifest: dict[str, str], result: str
) -> None:
    place.drop_repo_job("bad", body, **manifest)
    assert (await place.run()).failed
    job = place.job("bad")
    assert (job.stage, job.result) == ("failed", result), job.reason
    assert job.reason
    assert place.columns_of("bad") == ["failed"]


async def test_job_with_unmet_capabilities_never_starts_the_engine(place: FolderHarness) -> None:
    trace = place.folder / "was-run"
    place.drop("special", f"touch {trace}", capabilities="[has:warp-drive]", retry="{max: 3}")
    place.drop("elsewhere", f"touch {trace}", engine="no-such-engine")
    assert (await place.run()).failed
    for name, lacking in (("special", "has:warp-drive"), ("elsewhere", "no-such-engine")):
        job = place.job(name)
        assert (job.stage, job.result, job.attempts) == ("failed", "engine_unavailable", 0)
        assert lacking in (job.reason or "")
    assert not trace.exists()


async def test_failed_job_is_retried_after_its_backoff(place: FolderHarness) -> None:
    counter = place.folder / "tries"
    script = f'echo x >> {counter}; [ "$(wc -l < {counter})" -ge 3 ]'
    place.drop("flaky", script, retry="{max: 2, backoff: 1s}", verify="true")
    assert not (await place.run()).failed
    assert place.job("flaky").attempts == 2
    story = place.event_types("flaky")
    assert story.count("retry_scheduled") == 2
    runs = place.record("flaky").runs
    assert [run.result for run in runs] == ["crash", "crash", "ok"]
    waited = [b.granted_at - a.ended_at for a, b in pairwise(runs) if a.ended_at]
    assert waited[0].total_seconds() >= 1
    assert waited[1].total_seconds() >= 2


async def test_exhausted_retries_are_a_dead_letter(place: FolderHarness) -> None:
    place.drop("broken", "exit 1", retry="{max: 1, backoff: 0s}")
    assert (await place.run()).failed
    job = place.job("broken")
    assert (job.stage, job.result) == ("dead_letter", "retries_exhausted")
    assert place.columns_of("broken") == ["failed"]
