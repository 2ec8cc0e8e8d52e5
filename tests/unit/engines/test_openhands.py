"""OpenHands: how it is started, and what it printed."""

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
def test_what_it_printed_is_read_as_what_happened(
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


def test_a_success_says_all_there_is_to_know() -> None:
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


def test_only_the_share_of_this_start_is_counted_of_a_conversation_s_total() -> None:
    before = Usage(tokens_in=1200, tokens_out=40, turns=1, cost_nano_usd=3_400_000)
    work = a_work(session=CONVERSATION, session_usage=before)
    verdict = play("success", 0, state("success"), work).verdict
    usage, total = verdict.usage, verdict.session_usage
    assert (usage.tokens_in, usage.tokens_cached, usage.tokens_out) == (300, 1000, 12)
    assert (usage.turns, usage.cost_nano_usd) == (1, 2_120_000)
    assert total is not None
    assert (total.tokens_in, total.cost_nano_usd) == (1500, 5_520_000)


def test_a_conversation_that_was_finished_before_is_not_finished_again_by_doing_nothing() -> None:
    work = a_work(session="8e694a29-1c89-4627-bc22-46b0f8215e3d")
    assert play("no-such-recording", 0, state("success"), work).failure_kind == "no_end"


def test_a_conversation_that_was_stopped_is_known_by_what_it_was_asked() -> None:
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


def test_its_retries_are_told() -> None:
    heard = play("rate-limit", 0)
    assert (
        heard.events_of(Retrying)
        == [Retrying(Failure(FailureKind.RATE_LIMIT, "RateLimitError"))] * 4
    )
    failure = heard.verdict.failure
    assert failure is not None
    assert failure.message.endswith("Rate limit reached. Please try again in 1s.")


@pytest.mark.parametrize("status", ["error", "stuck"])
def test_a_conversation_that_did_not_finish_has_failed(status: str) -> None:
    [(name, data)] = state("success").items()
    changed = data.replace(b'"finished"', f'"{status}"'.encode())
    assert play("success", 0, {name: changed}).failure_kind == "crash"


def test_the_words_by_which_it_finishes_are_its_last_and_no_tool() -> None:
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
def test_an_error_is_known_by_its_code(code: str, trouble: FailureKind) -> None:
    reader = OPENHANDS.reader(a_work())
    event = {"kind": "ConversationErrorEvent", "code": code}
    assert not list(reader.read(msgspec.json.encode(event).decode()))
    assert reader.end(0, {}).failure == Failure(trouble, code)


def test_what_is_missing_is_told_before_it_begins() -> None:
    reader = OPENHANDS.reader(a_work())
    list(reader.read("Missing required environment variable(s): LLM_API_KEY"))
    failure = reader.end(1, {}).failure
    assert failure is not None
    assert failure.kind is FailureKind.AUTH


def test_it_is_started_with_what_the_work_asks_for() -> None:
    start = OPENHANDS.start(a_work(persona="Be Anna.", model="openai/m", session=CONVERSATION))
    assert start.argv == (
        *("/bin/engine", "--headless", "--json", "--override-with-envs"),
        *("--file=/work/home/.gigafactory/prompt.md", f"--resume={CONVERSATION}"),
    )
    assert start.env["LLM_MODEL"] == "openai/m"
    assert start.files == {".gigafactory/prompt.md": b"Do what this file asks for.\n\nDo it."}
    assert start.stdin == b""


def test_a_new_conversation_hears_the_persona_and_keeps_the_model_of_the_factory() -> None:
    start = OPENHANDS.start(a_work(persona="Be Anna."))
    assert start.files[".gigafactory/prompt.md"].endswith(b"Be Anna.\n\n---\n\nDo it.")
    assert "LLM_MODEL" not in start.env


@pytest.mark.parametrize(
    ("home", "kept_apart"), [("/work/home", "/work/home"), (f"/{'long' * 20}", None)]
)
def test_jobs_share_no_terminals_where_a_socket_has_room(home: str, kept_apart: str | None) -> None:
    assert OPENHANDS.start(a_work(home=home)).env.get("TMUX_TMPDIR") == kept_apart


def test_every_flag_that_it_is_given_is_checked() -> None:
    given = {argument.split("=")[0] for argument in OPENHANDS.start(a_work(session="s")).argv[1:]}
    assert given <= set(OPENHANDS.flags)
