"""Commands on a folder, run as a person types them."""

from pathlib import Path
from typing import Any

from tests.services.aq import Shell
from tests.support.folder_queue import FolderHarness


def written(place: FolderHarness, name: str, text: str) -> Path:
    path = place.folder / name
    path.write_text(text)
    return path


def jobs(place: FolderHarness) -> dict[str, dict[str, Any]]:
    data: Any = place.shell.aq("status", "--json").json()
    return {line["job"]["name"]: line for line in data["jobs"]}


SCRIPT = "---\nengine: command\n---\necho words\n"


def test_commands_take_an_empty_folder_to_a_shipped_job(place: FolderHarness) -> None:
    shell = Shell(place.folder / "fresh", place.shell.environ)
    shell.folder.mkdir()
    job = written(place, "hello.md", SCRIPT)
    assert shell.aq("status").code == 3
    assert shell.aq("run", "--once").code == 3
    assert list(shell.folder.glob("*")) == []
    assert shell.aq("add", str(job)).out == f"{shell.folder}/inbox/hello.md\n"
    assert "new in the inbox: hello.md" in shell.aq("status").err
    ran = shell.aq("run", "--once")
    assert ran.code == 0, ran.err
    assert "hello" in ran.out
    assert "words\n" in shell.aq("logs", "hello").out
    assert "review" in shell.aq("status").out
    assert "testing" in shell.aq("promote", "hello").out
    assert "shipped" in shell.aq("ship", "hello").out
    assert (shell.folder / "shipped" / "hello.md").read_text() == SCRIPT


def test_add_command_takes_all_files_or_none(place: FolderHarness) -> None:
    good = written(place, "good.md", SCRIPT)
    bad = written(place, "bad.md", "---\nprioritty: high\n---\nx\n")
    result = place.shell.aq("add", str(good), str(bad))
    assert result.code == 1
    assert "prioritty" in result.err
    assert place.shell.aq("add", str(good), str(place.folder / "none.md")).code == 1
    empty = written(place, "empty.md", "")
    assert "is empty" in place.shell.aq("add", str(empty)).err
    assert list(place.board.column("inbox").iterdir()) == []
    added = place.shell.aq("add", str(good), str(good), "--json").json()
    assert [Path(path).name for path in added["added"]] == ["good.md", "good-2.md"]  # type: ignore[index]


def test_run_once_fails_when_a_job_fails(place: FolderHarness) -> None:
    place.drop("bad", "exit 1")
    result = place.shell.aq("run", "--once", "--json")
    assert result.code == 1
    answer: Any = result.json()
    assert [job["result"] for job in answer["taken"]] == ["crash"]
    assert place.shell.aq("run", "--once").code == 0, "it is told once"
    assert jobs(place)["bad"]["column"] == "failed"
    assert place.shell.aq("requeue", "bad", "--fresh").code == 0
    assert jobs(place)["bad"]["column"] == "inbox"


def test_folder_option_selects_a_folder_from_elsewhere(place: FolderHarness) -> None:
    elsewhere = Shell(place.folder, place.shell.environ)
    place.drop("page", "true")
    assert elsewhere.aq("run", "--once", "queue").code == 0
    assert elsewhere.aq("reject", "page", "-m", "no", "--folder", "queue").code == 0
    assert place.columns_of("page") == ["failed"]
    assert elsewhere.aq("reject", "page", "-m", "no", "--folder", "queue").code == 4
    assert elsewhere.aq("reject", "none", "-m", "no", "--folder", "queue").code == 3
    away = {"AQ_FLEET_API": "http://127.0.0.1:1"}
    assert elsewhere.aq("reject", "page", "-m", "no", **away).code == 5, "that is the fleet's"


def test_configured_coordinator_takes_precedence_over_the_folder(place: FolderHarness) -> None:
    place.drop("page", "true")
    result = place.shell.aq("requeue", "page", AQ_FLEET_API="http://127.0.0.1:1")
    assert result.code == 5


def test_status_says_why_a_job_waits(place: FolderHarness) -> None:
    place.drop("after", "true", deps="[before]")
    place.drop("later", "true", not_before="1d")
    place.drop("wrong", "true", prioritty="high")
    assert place.shell.aq("run", "--once").code == 1
    assert "waits for before; some of them do not exist" in jobs(place)["after"]["waits"]
    assert "not before" in jobs(place)["later"]["waits"]
    result = place.shell.aq("status")
    assert "failed/wrong.md is not a valid job" in result.err


def test_clean_command_removes_shipped_and_failed_jobs(place: FolderHarness) -> None:
    place.drop("done", "true", verify="true", ship="none", ship_policy="auto")
    place.drop("bad", "exit 1")
    place.shell.aq("run", "--once")
    assert place.shell.aq("clean").err == "nothing to remove\n"
    assert "done" in place.shell.aq("clean", "--older", "0s").out
    assert jobs(place).keys() == {"bad"}
    assert "bad" in place.shell.aq("clean", "--older", "0s", "--failed", "--json").out
    left = [p.name for p in place.board.root.rglob("*") if p.name.startswith(("done", "bad"))]
    assert left == []


def test_logs_command_shows_one_run_or_all(place: FolderHarness) -> None:
    place.drop("twice", "echo words; exit 1", retry="{max: 1, backoff: 0s}")
    place.shell.aq("run", "--once")
    assert place.shell.aq("logs", "twice").out.count("started\nwords\n") == 2
    assert place.shell.aq("logs", "twice", "--run", "2").out.count("started\nwords\n") == 1
    assert place.shell.aq("logs", "twice", "--run", "7").code == 3
    assert len(place.shell.aq("logs", "twice", "--tail", "5").out) == 5
    answer: Any = place.shell.aq("logs", "twice", "--json").json()
    assert "words" in answer["text"]
    assert place.shell.aq("logs", "-f", "twice", "--json").code == 0


def test_invalid_parallelism_setting_is_rejected(place: FolderHarness) -> None:
    result = place.shell.aq("run", "--once", AGENT_QUEUE_MAX="many")
    assert result.code == 1
    assert "AGENT_QUEUE_MAX" in result.err


def test_insights_command_sums_up_runs_of_the_folder(place: FolderHarness) -> None:
    assert place.shell.aq("insights").err == "nothing has run yet\n"
    used = """echo '{"usage": {"tokensIn": 7, "costUsd": 0.000000001}}'"""
    place.drop("one", used, verify="true", ship="none", ship_policy="auto", profile="qa")
    place.drop("two", f"{used}; exit 1", retry="{max: 1, backoff: 0s}")
    place.drop("three", "true")
    place.shell.aq("run", "--once")
    data: Any = place.shell.aq("insights", "--json").json()
    assert data["by"].keys() == {"engine", "profile", "repo", "day"}
    (command,) = data["by"]["engine"]
    assert command == data["total"] | {"group": "command"}
    assert (command["runs"], command["jobs"], command["tokensIn"]) == (4, 3, 21)
    assert command["costNanoUsd"] == 3
    assert command["results"] == {"crash": 2, "ok": 2}
    assert (command["firstPasses"], command["firstTries"]) == (2, 3)
    assert [one["group"] for one in data["by"]["profile"]] == ["none", "qa@1"]
    shown = place.shell.aq("insights", "--by", "engine", "--since", "1h").out
    assert "ENGINE" in shown
    assert "67%" in shown
    assert "$0.000000003" in shown
    assert "crash 2, ok 2" in shown
    assert place.shell.aq("insights", "--since", "0s").err == "nothing has run since then\n"
