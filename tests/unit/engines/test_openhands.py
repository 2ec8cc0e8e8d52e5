"""OpenHands: its command line, and its output."""

import msgspec
import pytest

from gigafactory.domain.job.run import Usage
from gigafactory.engines.openhands import OPENHANDS
from gigafactory.engines.protocol.engine import (
    EngineEvent,
    Failure,
    FailureKind,
    Retrying,
    SessionStarted,
    Text,
    Work,
)
from tests.support.engine_replay import Replay, a_work, lines, recorded

CONVERSATION = "8e694a291c894627bc2246b0f8215e3d"


def state(case: str) -> dict[str, bytes]:
    data = recorded("openhands", f"{case}.base_state.json")
    folder = msgspec.json.decode(data)["id"].replace("-", "")
    return {f".openhands/conversations/{folder}/base_state.json": data}


def play(
    case: str, exit_code: int, files: dict[str, bytes] | None = None, work: Work | None = None
) -> Replay:
    reader = OPENHANDS.reader(work or a_work())
    events: list[EngineEvent] = []
    for line in lines("openhands", case, "stdout.txt"):
        events.extend(reader.read(line))
    for line in lines("openhands", case, "stderr.txt"):
        events.extend(reader.read(line, stderr=True))
    return Replay(events, reader.end(exit_code, files or {}))


@pytest.mark.parametrize(
    ("case", "exit_code", "states", "trouble", "tokens", "tool_calls"),
    [
        ("success", 0, ("auth", "success"), None, (1500, 1000, 52), 1),
        ("success", 0, ("auth",), "no_end", (0, 0, 0), 1),
        ("success", -15, (), "killed", (0, 0, 0), 1),
        ("auth", 0, ("auth", "success"), "auth", (0, 0, 0), 0),
        ("rate-limit", 0, (), "rate_limit", (0, 0, 0), 0),
        ("no-such-recording", 0, ("success",), "no_end", (0, 0, 0), 0),
    ],
)
def test_recorded_output_gives_outcome_tokens_and_tool_calls(
    case: str,
    exit_code: int,
    states: tuple[str, ...],
    trouble: str | None,
    tokens: tuple[int, int, int],
    tool_calls: int,
) -> None:
    files = {name: data for kept in states for name, data in state(kept).items()}
    heard = play(case, exit_code, files)
    assert (heard.failure_kind, heard.tokens, len(heard.tools)) == (trouble, tokens, tool_calls)


def test_success_reports_session_text_tools_model_and_usage() -> None:
    heard = play("success", 0, state("success"))
    assert heard.events_of(SessionStarted) == [SessionStarted(CONVERSATION)]
    assert heard.events_of(Text) == [
        Text("I will create the file."),
        Text("Done: hello.txt is created."),
    ]
    assert heard.tools == ["terminal"]
    verdict = heard.verdict
    assert (verdict.session, verdict.text) == (CONVERSATION, "Done: hello.txt is created.")
    usage = verdict.usage
    assert (usage.model, usage.turns, usage.cost_nano_usd) == ("openai/gpt-4o", 2, 5_520_000)


def test_resumed_conversation_counts_only_the_usage_of_this_start() -> None:
    before = Usage(tokens_in=1200, tokens_out=40, turns=1, cost_nano_usd=3_400_000)
    work = a_work(session=CONVERSATION, session_usage=before)
    verdict = play("success", 0, state("success"), work).verdict
    usage, total = verdict.usage, verdict.session_usage
    assert (usage.tokens_in, usage.tokens_cached, usage.tokens_out) == (300, 1000, 12)
    assert (usage.turns, usage.cost_nano_usd) == (1, 2_120_000)
    assert total is not None
    assert (total.tokens_in, total.cost_nano_usd) == (1500, 5_520_000)


def test_conversation_finished_earlier_without_new_work_is_no_success() -> None:
    work = a_work(session="8e694a29-1c89-4627-bc22-46b0f8215e3d")
    assert play("no-such-recording", 0, state("success"), work).failure_kind == "no_end"


def test_stopped_conversation_is_found_by_its_last_user_message() -> None:
    reader = OPENHANDS.reader(a_work())
    asked = {"kind": "MessageEvent", "source": "user", "id": "m-2"}
    assert not list(reader.read(msgspec.json.encode(asked).decode()))
    files = {
        f"{number}/base_state.json": msgspec.json.encode(
            {
                "id": f"c-{number}",
                "last_user_message_id": f"m-{number}",
                "execution_status": "running",
            }
        )
        for number in (1, 2)
    }
    verdict = reader.end(-15, files)
    assert verdict.session == "c-2"
    assert verdict.failure is not None
    assert verdict.failure.kind is FailureKind.KILLED


def test_retries_of_the_engine_are_reported() -> None:
    heard = play("rate-limit", 0)
    assert (
        heard.events_of(Retrying)
        == [Retrying(Failure(FailureKind.RATE_LIMIT, "RateLimitError"))] * 4
    )
    failure = heard.verdict.failure
    assert failure is not None
    assert failure.message.endswith("Rate limit reached. Please try again in 1s.")


@pytest.mark.parametrize("status", ["error", "stuck"])
def test_conversation_that_did_not_finish_is_a_failure(status: str) -> None:
    [(name, data)] = state("success").items()
    changed = data.replace(b'"finished"', f'"{status}"'.encode())
    assert play("success", 0, {name: changed}).failure_kind == "crash"


def test_finish_message_is_the_final_text_and_not_a_tool_call() -> None:
    reader = OPENHANDS.reader(a_work())
    action = {"kind": "FinishAction", "message": "All done."}
    event = {"kind": "ActionEvent", "tool_name": "finish", "thought": [], "action": action}
    assert list(reader.read(msgspec.json.encode(event).decode())) == [Text("All done.")]
    verdict = reader.end(0, {})
    assert verdict.text == "All done."


@pytest.mark.parametrize(
    ("code", "trouble"),
    [
        ("MaxIterationsReached", FailureKind.TURN_LIMIT),
        ("LLMContextWindowExceedError", FailureKind.CONTEXT),
        ("LLMServiceUnavailableError", FailureKind.OVERLOADED),
        ("SomethingElse", FailureKind.CRASH),
    ],
)
def test_error_is_classified_by_its_code(code: str, trouble: FailureKind) -> None:
    reader = OPENHANDS.reader(a_work())
    event = {"kind": "ConversationErrorEvent", "code": code}
    assert not list(reader.read(msgspec.json.encode(event).decode()))
    assert reader.end(0, {}).failure == Failure(trouble, code)


def test_missing_credential_before_the_start_is_an_auth_failure() -> None:
    reader = OPENHANDS.reader(a_work())
    list(reader.read("Missing required environment variable(s): LLM_API_KEY"))
    failure = reader.end(1, {}).failure
    assert failure is not None
    assert failure.kind is FailureKind.AUTH


def test_start_passes_prompt_file_model_and_session() -> None:
    start = OPENHANDS.start(a_work(persona="Be Anna.", model="openai/m", session=CONVERSATION))
    assert start.argv == (
        *("/bin/engine", "--headless", "--json", "--override-with-envs"),
        *("--file=/work/home/.gigafactory/prompt.md", f"--resume={CONVERSATION}"),
    )
    assert start.env["LLM_MODEL"] == "openai/m"
    assert start.files == {".gigafactory/prompt.md": b"Do what this file asks for.\n\nDo it."}
    assert start.stdin == b""


def test_new_conversation_gets_the_persona_and_the_default_model() -> None:
    start = OPENHANDS.start(a_work(persona="Be Anna."))
    assert start.files[".gigafactory/prompt.md"].endswith(b"Be Anna.\n\n---\n\nDo it.")
    assert "LLM_MODEL" not in start.env


@pytest.mark.parametrize(
    ("home", "kept_apart"), [("/work/home", "/work/home"), (f"/{'long' * 20}", None)]
)
def test_tmux_folder_is_separate_per_job_where_the_socket_path_fits(
    home: str, kept_apart: str | None
) -> None:
    assert OPENHANDS.start(a_work(home=home)).env.get("TMUX_TMPDIR") == kept_apart


def test_every_used_flag_is_in_the_checked_flags() -> None:
    given = {argument.split("=")[0] for argument in OPENHANDS.start(a_work(session="s")).argv[1:]}
    assert given <= set(OPENHANDS.flags)
