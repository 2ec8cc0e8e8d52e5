"""Edited job files: an edit applies before the first run, and never later."""

import os

from tests.support.folder_queue import FolderHarness


async def test_edit_before_the_first_run_applies(place: FolderHarness) -> None:
    place.drop("page", "echo old", not_before="1d")
    place.drop("after", "true", deps="[page]", deps_mode="soft")
    await place.run()
    before = place.job("page")
    place.drop("page", "echo new", verify="true")
    await place.run()
    after = place.job("page")
    assert (after.id, after.created_at) == (before.id, before.created_at)
    assert (after.stage, place.job("after").stage) == ("testing", "review")
    assert "new\n" in place.log("page")
    assert place.event_types("page")[:3] == ["submitted", "edited", "assigned"]
    assert place.columns_of("page") == ["testing"]


async def test_edit_can_add_and_remove_a_dependency(place: FolderHarness) -> None:
    place.drop("page", "true", not_before="1d", verify="true")
    await place.run()
    place.drop("page", "true", deps="[first]", verify="true")
    await place.run()
    assert (place.job("page").stage, place.job("page").flags) == ("blocked", ("dep_missing",))
    assert place.event_types("page") == ["submitted", "edited", "blocked"]
    place.drop("page", "true", verify="true")
    await place.run()
    assert (place.job("page").stage, place.job("page").flags) == ("testing", ())


async def test_file_made_invalid_by_an_edit_is_rejected_with_its_errors(
    place: FolderHarness,
) -> None:
    place.drop("soon", "true", not_before="1d")
    await place.run()
    place.drop("soon", "true", not_before="whenever")
    assert (await place.run()).invalid == ("soon.md",)
    assert place.job("soon").stage == "cancelled"
    assert "not-before" in place.board.errors("soon.md").read_text()


async def test_edit_after_the_first_run_is_flagged_and_ignored(
    place: FolderHarness,
) -> None:
    place.drop("page", "echo old")
    await place.run()
    assert place.columns_of("page") == ["review"]
    file = place.board.column("review") / "page.md"
    text = file.read_text()
    file.write_text(text.replace("old", "another one"))
    await place.run()
    assert place.record("page").edited
    assert "review/page.md was changed after its first run" in place.shell.aq("status").err
    place.act("page", "request-changes", reason="again")
    await place.run()
    assert place.log("page").count("\nold\n") == 2
    assert "another one" not in place.log("page")
    assert (place.board.column("review") / "page.md").read_text() != text, "nothing of it is lost"
    (place.board.column("review") / "page.md").write_text(text)
    await place.run()
    assert not place.record("page").edited


async def test_touched_file_with_unchanged_text_is_the_same_job(place: FolderHarness) -> None:
    path = place.drop("page", "true", not_before="1d")
    await place.run()
    os.utime(path, (1, 1))
    await place.run()
    assert place.event_types("page") == ["submitted"]
    assert not place.record("page").edited
