"""Drafts: the record of a job that is not stored yet, made from its manifest."""

from gigafactory.domain.job.job import OVER_BUDGET, Priority, Roadmap
from gigafactory.domain.manifest.job_file import parse_job_file
from gigafactory.domain.manifest.manifest import ReviewPolicy
from gigafactory.domain.manifest.profile import Profile
from gigafactory.domain.submission.draft import Draft, draft
from tests.support.builders import NOON, after


def drafted(text: str, *, stem: str | None = None) -> Draft:
    file = parse_job_file(text, stem=stem)
    return draft(file, None, job_id="0123456789ab", product="notes", by="user:ann", now=NOON)


def test_draft_takes_manifest_values_and_defaults() -> None:
    made = drafted("---\nrepo: git@host:me/notes.git\npriority: high\nlock: l\n---\n# Fix it\n")
    job = made.job
    assert (job.name, job.title, job.priority) == ("fix-it", "Fix it", Priority.HIGH)
    assert (job.ask.repo, job.lock, job.rev, made.has_given_name) == ("notes", "l", 0, False)
    assert (job.terms.retry_max, job.terms.review_by_people, job.terms.verify) == (0, True, False)
    assert drafted("x", stem="named").has_given_name


def test_job_without_a_title_is_named_after_its_id() -> None:
    assert drafted("---\nx-a: b\n---\n").job.name == "job-456789ab"


def test_job_with_a_working_directory_locks_it() -> None:
    assert drafted("---\ncwd: /srv/notes\n---\nx\n").job.lock == "cwd:/srv/notes"


def test_start_time_comes_from_not_before_and_schedule() -> None:
    assert drafted("x").job.not_before is None
    assert drafted("---\nnot-before: 90s\n---\nx\n").job.not_before == after(90)
    assert drafted("---\nschedule: '0 13 * * *'\n---\nx\n").job.not_before == after(3600)
    both = "---\nschedule: '0 13 * * *'\nnot-before: 2h\n---\nx\n"
    assert drafted(both).job.not_before == after(25 * 3600)


def test_composite_needs_approval_between_phases_unless_review_is_auto() -> None:
    made = drafted("---\nkind: composite\nverify: make\n---\nx\n")
    assert (made.job.kind, made.job.roadmap) == ("composite", Roadmap())
    assert (made.job.terms.review_by_people, made.job.terms.ship) == (True, "merge")
    quick = drafted("---\nkind: composite\nreview-policy: auto\n---\nx\n")
    assert (quick.job.terms.review_by_people, quick.job.terms.ship) == (False, "none")
    role = Profile(name="lead", review_policy=ReviewPolicy("auto"))
    file = parse_job_file("---\nkind: composite\n---\nx\n")
    made = draft(file, role, job_id="01J", product="notes", by="user:ann", now=NOON)
    assert made.job.terms.review_by_people is False


def test_budget_of_a_composite_becomes_its_ceiling() -> None:
    made = drafted("---\nkind: composite\nbudget: {tokens: 500}\n---\nx\n")
    assert made.ceiling is not None
    assert (made.ceiling.job_id, made.ceiling.tokens) == (made.job.id, 500)
    assert (made.job.ceilings, made.job.flags) == ((made.job.id,), ())
    spent = drafted("---\nkind: composite\nbudget: {tokens: 0}\n---\nx\n")
    assert spent.job.flags == (OVER_BUDGET,)
    leaf = drafted("---\nbudget: {tokens: 500}\n---\nx\n")
    assert (leaf.ceiling, leaf.job.ceilings) == (None, ())


def test_children_are_left_out_of_the_stored_manifest() -> None:
    made = drafted("---\nkind: composite\nchildren: [{name: a, body: x}]\n---\nx\n")
    assert b"children" not in bytes(made.spec.manifest)
    assert made.job.content_hash != drafted("---\nkind: composite\n---\nx\n").job.content_hash


def test_sandbox_and_yolo_are_part_of_the_ask() -> None:
    ask = drafted("---\nsandbox: strict\nyolo: true\n---\nx\n").job.ask
    assert (ask.sandbox, ask.yolo) == ("strict", True)


def test_dollar_budget_is_part_of_the_ask() -> None:
    assert drafted("---\nbudget: {usd: 2}\n---\nx\n").job.ask.budget_nano_usd == 2_000_000_000
