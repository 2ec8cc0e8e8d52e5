"""Job files: valid settings, rejected ones, and the messages for them."""

from datetime import UTC, datetime, timedelta

import pytest

from gigafactory.domain.errors import Fault, Invalid
from gigafactory.domain.manifest.job_file import parse_job_file, parse_json, title_of
from gigafactory.domain.manifest.manifest import (
    JobBudget,
    JobFile,
    Manifest,
    Retry,
    ReviewPolicy,
    content_hash,
    earliest_start,
)

NOON = datetime(2030, 1, 31, 12, tzinfo=UTC)

FULL = """\
---
name: fix-login
title: Fix the login
product: notes
repo: git@example.com:team/notes.git
base: release/2.1
engine: command
engine-class: chat-coder
prefers-engine: [claude, codex]
command: make fix
model: large-2
profile: backend-engineer@3
capabilities: [os:any, node>=20, gpu]
prefers: [factory:mac-2, has:docker]
priority: high
lock: notes main
deps: [job-123, 01J9ZK]
deps-mode: soft
on-dep-failure: fail
setup: none
verify: |
  make lint
  make test
verify-rounds: 2
timeout: 45m
stall: 0
budget: { usd: 5.25, tokens: 2M, wall: 4h }
retry: { max: 2, backoff: 5m, on: [timeout, verify_failed] }
review-policy: { reviewers: ["@alice", bob], quorum: 2 }
ship: pr
ship-policy: auto
merge-style: squash
wait-merge: yes
yolo: true
sandbox: strict
allowed-scope: [src/**, "*.md"]
artifacts: coverage
env: [API_KEY, LANG]
idempotency-key: login-1
tracker-item: ITEM-789
kind: leaf
parent: epic-1
phase: 2
not-before: 2030-01-31T09:00+01:00
schedule: 30 6 * * 1-5
x-team: { size: 3, on-call: no, ratio: 0.5, since: 2024-01-01, note: null, ok: true }
---
# Heading

Do it.
"""


def faults_of(text: bytes | str) -> tuple[Fault, ...]:
    with pytest.raises(Invalid) as refused:
        parse_job_file(text)
    return refused.value.faults


def the_fault(field: str) -> Fault:
    (fault,) = faults_of(f"---\n\n{field}\n---\n")
    return fault


def test_every_manifest_field_is_read() -> None:
    assert parse_job_file(FULL) == JobFile(
        Manifest(
            name="fix-login",
            title="Fix the login",
            product="notes",
            repo="git@example.com:team/notes.git",
            base="release/2.1",
            engine="command",
            engine_class="chat-coder",
            prefers_engine=("claude", "codex"),
            command="make fix",
            model="large-2",
            profile="backend-engineer@3",
            capabilities=("os:any", "node>=20", "gpu"),
            prefers=("factory:mac-2", "has:docker"),
            priority="high",
            lock="notes main",
            deps=("job-123", "01J9ZK"),
            deps_mode="soft",
            on_dep_failure="fail",
            setup="none",
            verify="make lint\nmake test\n",
            verify_rounds=2,
            timeout=timedelta(minutes=45),
            stall=timedelta(0),
            budget=JobBudget(5_250_000_000, 2_000_000, timedelta(hours=4)),
            retry=Retry(2, timedelta(minutes=5), ("timeout", "verify_failed")),
            review_policy=ReviewPolicy("reviewers", ("alice", "bob"), 2),
            ship="pr",
            ship_policy="auto",
            merge_style="squash",
            wait_merge=True,
            yolo=True,
            sandbox="strict",
            allowed_scope=("src/**", "*.md"),
            artifacts=("coverage",),
            env=("API_KEY", "LANG"),
            idempotency_key="login-1",
            tracker_item="ITEM-789",
            kind="leaf",
            parent="epic-1",
            phase=2,
            not_before=datetime(2030, 1, 31, 8, tzinfo=UTC),
            schedule="30 6 * * 1-5",
            extra={
                "x-team": {
                    "size": 3,
                    "on-call": "no",
                    "ratio": 0.5,
                    "since": "2024-01-01",
                    "note": None,
                    "ok": True,
                }
            },
        ),
        "# Heading\n\nDo it.\n",
    )


def test_job_file_of_the_oldest_version_is_read() -> None:
    old = (
        "---\nengine: devin\ncwd: /abs/repo\nyolo: true\nlock: repo\ntimeout: 45m\n"
        "verify: pnpm -s test\n---\nDo it."
    )
    assert parse_job_file(old, stem="Fix it!").manifest == Manifest(
        name="fix-it",
        title="Do it.",
        engine="devin",
        cwd="/abs/repo",
        yolo=True,
        lock="repo",
        timeout=timedelta(minutes=45),
        verify="pnpm -s test",
    )


def test_file_without_frontmatter_is_a_job() -> None:
    assert parse_job_file(b"Do it.", stem="a") == JobFile(
        Manifest(name="a", title="Do it."), "Do it."
    )
    assert parse_job_file("") == JobFile(Manifest(), "")
    assert parse_job_file("---").body == "---"
    assert parse_job_file("x", stem="日本").manifest.name is None


def test_key_without_a_value_is_ignored() -> None:
    assert parse_job_file("---\nlock:\nverify: ~\n---\n").manifest == Manifest()


def test_yaml_scalars_are_not_converted_unexpectedly() -> None:
    written = "---\nlock: no\ntitle: 1:30\ntracker-item: 2024-01-01\nyolo: Off\n---\n"
    manifest = parse_job_file(written).manifest
    assert (manifest.lock, manifest.title, manifest.tracker_item) == ("no", "1:30", "2024-01-01")
    assert manifest.yolo is False


@pytest.mark.parametrize(
    ("written", "policy"),
    [
        ("auto", ReviewPolicy("auto")),
        ("manual", ReviewPolicy("manual")),
        ("reviewers:[@a, @b]", ReviewPolicy("reviewers", ("a", "b"))),
        ("'reviewers: [\"@a\"]'", ReviewPolicy("reviewers", ("a",))),
        ("{reviewers: ['@a', b]}", ReviewPolicy("reviewers", ("a", "b"))),
        ("{reviewers: a}", ReviewPolicy("reviewers", ("a",))),
    ],
)
def test_review_policy_has_several_spellings(written: str, policy: ReviewPolicy) -> None:
    assert parse_job_file(f"---\nreview-policy: {written}\n---\n").manifest.review_policy == policy


@pytest.mark.parametrize(
    ("written", "field", "why"),
    [
        ("nam: x", "nam", "unknown key 'nam'; did you mean 'name'?"),
        ("reviewPolicy: auto", "reviewPolicy", "did you mean 'review-policy'?"),
        ("<<: {a: 1}", "<<", "unknown key '<<'"),
        ("q" * 200 + ": 1", "q" * 200, "unknown key 'qqq"),
        ("name: ../x", "name", "found '../x'; expected a name"),
        ("name: [a]", "name", "found a list of 1; expected text"),
        ("name: {a: b}", "name", "found a mapping; expected text"),
        ("title: " + "x" * 501, "title", "expected a text of 1 to 500"),
        ("lock: " + "x" * 201, "lock", "expected a text of 1 to 200"),
        ('lock: "a\\eb"', "lock", "control characters"),
        ("product: Big", "product", "lower-case"),
        ("repo: --upload-pack=x", "repo", "would be an option"),
        ("base: a..b", "base", "the name of a branch"),
        ("cwd: here", "cwd", "an absolute path"),
        ("engine: Claude", "engine", "lower-case"),
        ("engine-class: coder", "engine-class", "one of agentic-coder, chat-coder, review-only"),
        ("prefers-engine: [claude, -x]", "prefers-engine[1]", "found '-x'"),
        ("model: --dangerous", "model", "does not begin with a dash"),
        ("profile: qa@0", "profile", "name@version"),
        ("capabilities: [gpu, node>=x]", "capabilities[1]", "'x', which is no version"),
        ("capabilities: {gpu: 1}", "capabilities", "found a mapping; expected a list"),
        ("capabilities: [" + "gpu, " * 101 + "]", "capabilities", "at most 100 items"),
        ("prefers: [A]", "prefers[0]", "is no capability"),
        ("priority: urgent", "priority", "one of critical, high, medium, low"),
        ("priority: [high]", "priority", "one of critical, high, medium, low"),
        ("deps: [a b]", "deps[0]", "the id or name of a job"),
        ("deps: a, b", "deps", "the id or name of a job"),
        ("verify: ' '", "verify", "a command of 1 to"),
        ("verify-rounds: -1", "verify-rounds", "a whole number from 0 to 100"),
        ("verify-rounds: many", "verify-rounds", "a whole number from 0 to 100"),
        ("verify-rounds: 1.5", "verify-rounds", "a whole number from 0 to 100"),
        ("timeout: 1:30", "timeout", "a duration such as"),
        ("timeout: 0", "timeout", "more than nothing"),
        ("stall: -5", "stall", "a duration such as"),
        ("budget: 5", "budget", "a mapping of usd, tokens and wall"),
        ("budget: {usd: .nan}", "budget.usd", "a sum in dollars"),
        ("budget: {usd: -1}", "budget.usd", "neither negative"),
        ("budget: {usd: [1]}", "budget.usd", "found a list of 1; expected a quantity"),
        ("budget: {euro: 1}", "budget.euro", "unknown key 'euro'; did you mean"),
        ("budget: {x-a: 1}", "budget", "starts with x-"),
        ("retry: 3", "retry", "a mapping of max, backoff and on"),
        ("retry: {on: [budget_exceeded]}", "retry.on[0]", "one of timeout, crash"),
        ("review-policy: never", "review-policy", "expected auto, manual, reviewers:"),
        ("review-policy: [a]", "review-policy", "expected auto, manual, reviewers:"),
        ("review-policy: reviewers:[]", "review-policy", "0 reviewers for a quorum of 1"),
        ("review-policy: reviewers:[-x, a]", "review-policy[0]", "a person such as @alice"),
        ("review-policy: {reviewers: [a], quorum: 2}", "review-policy", "for a quorum of 2"),
        ("yolo: maybe", "yolo", "found 'maybe'; expected true or false"),
        ("yolo: 'true'", "yolo", "expected true or false"),
        ("allowed-scope: [../x]", "allowed-scope[0]", "below the worktree"),
        ("phase: -1", "phase", "a whole number"),
        ("not-before: soon", "not-before", "a time such as 2030-01-31T09:00Z"),
        ("not-before: 0001-01-01T00:00+14:00", "not-before", "a time such as"),
        ("not-before: 5 s", "not-before", "a duration such as"),
        ("schedule: 99 * * * *", "schedule", "(bad minute)"),
        ("schedule: 0 0 * *", "schedule", "five fields"),
        ("schedule: 0 0 0 * * *", "schedule", "five fields"),
        ("schedule: 0 0 31 2 *", "schedule", "bad day-of-month"),
        ("children: 5", "children", "a list of manifests with bodies"),
        ("x-" + "k" * 120 + ": 1", "", "a key of 122 characters"),
        ('x-a: "a\\0b"', "", "a NUL character"),
    ],
)
def test_fault_names_field_line_and_expected_value(written: str, field: str, why: str) -> None:
    fault = the_fault(written)
    assert fault.field == field
    assert why in fault.message
    assert fault.line in {2, 3}


def test_schedule_that_never_matches_is_rejected() -> None:
    assert "matches some time" in the_fault("schedule: 0 0 */29 2 1#5").message


def test_schedule_that_breaks_the_cron_library_is_rejected() -> None:
    assert "a cron expression such as" in the_fault("schedule: 0 0 * * ,").message


def test_fault_never_repeats_the_value_of_a_variable() -> None:
    fault = the_fault("env: [OK, TOKEN=hunter2]")
    assert fault.field == "env[1]"
    assert "'TOKEN'" in fault.message
    assert "hunter2" not in fault.message


def test_all_faults_are_reported_at_once_in_line_order() -> None:
    text = "---\nnam: x\nyolo: maybe\nlock: &a 1\nlock: 2\nbase: *a\n---\n" + "x" * 1_048_577
    found = [(fault.line, fault.field) for fault in faults_of(text)]
    assert found == [(2, "nam"), (3, "yolo"), (4, ""), (5, "lock"), (6, ""), (None, "body")]


@pytest.mark.parametrize(
    ("body", "title"),
    [
        ("# Fix login #\n\ntext", "Fix login"),
        ("## Closed ##  ", "Closed"),
        ("# C#", "C#"),
        ("# ##", "##"),
        ("    # indented too far\n# Next", "Next"),
        ("####### too deep\n# Next", "Next"),
        ("#no blank\n#\tTab", "Tab"),
        ("text\n\n## Later heading", "Later heading"),
        ("\n\nfirst line\nsecond", "first line"),
        ("```sh\n# no heading\n```\ntext", "```sh"),
        ("do\n```\n# no\n```\n# Yes", "Yes"),
        ("#!/bin/sh\nmake", "#!/bin/sh"),
        ("#\u00a0x\x1b[31m\n", "# x [31m"),
        ("# \n\nx", "#"),
        ("", None),
        (" \n\t\n", None),
        ("x" * 600, "x" * 500),
        ("\ufeffHello", "Hello"),
    ],
)
def test_title_is_the_first_heading_or_the_first_line(body: str, title: str | None) -> None:
    assert title_of(body) == title


def test_not_before_is_a_time_or_a_delay_from_now() -> None:
    def start(written: str) -> datetime | None:
        manifest = parse_job_file(f"---\nnot-before: {written}\n---\n").manifest
        return earliest_start(manifest, now=NOON)

    assert start("2h") == NOON + timedelta(hours=2)
    assert start("60") == NOON + timedelta(minutes=1)
    assert start("2030-02-01") == datetime(2030, 2, 1, tzinfo=UTC)
    assert start("2030-02-01T10:00:00.123456") == datetime(2030, 2, 1, 10, 0, 0, 123000, tzinfo=UTC)
    assert start("") is None


def test_content_hash_ignores_key_order_and_idempotency_key() -> None:
    plain = parse_job_file("---\nlock: a\nx-b: {c: 1, d: 2}\n---\nx")
    keyed = parse_job_file("---\nx-b: {d: 2, c: 1}\nidempotency-key: k\nlock: a\n---\nx")
    assert content_hash(plain.manifest, "x") == content_hash(keyed.manifest, "x")
    assert content_hash(plain.manifest, "x") != content_hash(plain.manifest, "y")
    assert content_hash(plain.manifest, "x") != content_hash(Manifest(lock="b"), "x")
    assert len(content_hash(plain.manifest, "x")) == 64


def test_a_long_heading_costs_no_more_than_its_length() -> None:
    assert title_of("# a" + " " * 1_000_000 + "b") == "a b"


def test_only_the_first_unknown_keys_come_with_a_suggestion() -> None:
    with pytest.raises(Invalid) as refused:
        parse_job_file("---\n" + "".join(f"priorit{i}: 1\n" for i in range(20)) + "---\nbody")
    messages = [fault.message for fault in refused.value.faults]
    assert len(messages) == 20
    assert sum("did you mean 'priority'?" in message for message in messages) == 10


def test_too_many_keys_of_its_own_are_one_fault_however_long_they_are() -> None:
    keys = {f"x-{i}" + "a" * 200: 1 for i in range(101)}
    with pytest.raises(Invalid) as refused:
        parse_json(keys)
    assert [fault.message for fault in refused.value.faults] == [
        "found 101 keys that start with x-; expected at most 100"
    ]
