"""Engines that may run a job, in order of preference."""

import pytest

from gigafactory.domain.manifest.engine_ref import (
    ENGINE_CLASSES,
    base_engine,
    eligible_engines,
    engine_name,
    serves_class,
)
from gigafactory.domain.manifest.manifest import EngineClass, Manifest


def test_explicit_engine_overrides_class_and_preference() -> None:
    asked = Manifest(engine="copilot", engine_class="agentic-coder", prefers_engine=("claude",))
    assert eligible_engines(asked, ["claude", "copilot"]) == ("copilot",)
    assert eligible_engines(asked, ["claude"]) == ()


def test_preferred_engines_come_first_and_then_any_of_the_class() -> None:
    asked = Manifest(prefers_engine=("devin", "gemini", "copilot", "devin"))
    assert eligible_engines(asked, ["copilot", "gemini", "codex", "claude", "devin"]) == (
        "devin",
        "gemini",
        "claude",
        "codex",
    )


def test_chat_coder_is_eligible_only_for_its_own_class() -> None:
    asked = Manifest(engine_class="chat-coder")
    assert eligible_engines(asked, ["claude", "copilot"]) == ("copilot",)


def test_command_and_acp_engines_are_eligible_only_when_named() -> None:
    assert eligible_engines(Manifest(), ["command", "acp"]) == ()
    assert eligible_engines(Manifest(engine="command"), ["command"]) == ("command",)
    assert eligible_engines(Manifest(prefers_engine=("command",)), ["command"]) == ("command",)


def test_acp_engine_needs_only_the_protocol() -> None:
    asked = Manifest(engine="acp:my-agent --stdio")
    assert eligible_engines(asked, ["acp"]) == ("acp:my-agent --stdio",)
    assert eligible_engines(Manifest(prefers_engine=("acp:x",)), ["acp", "pi"]) == ("acp:x", "pi")
    assert base_engine("acp:x") == "acp"
    assert base_engine("pi") == "pi"


@pytest.mark.parametrize(
    ("engine", "engine_class", "answer"),
    [
        ("claude", "agentic-coder", True),
        ("claude", "chat-coder", False),
        ("copilot", "agentic-coder", False),
        ("copilot", "review-only", True),
        ("command", "chat-coder", True),
        ("acp:x", "agentic-coder", True),
        ("brand-new", "agentic-coder", True),
    ],
)
def test_engine_serves_its_class(engine: str, engine_class: EngineClass, *, answer: bool) -> None:
    assert serves_class(engine, engine_class) is answer


def test_plugin_engine_serves_the_class_it_declares() -> None:
    classes: dict[str, EngineClass] = {**ENGINE_CLASSES, "brand-new": "chat-coder"}
    asked = Manifest(engine_class="chat-coder")
    assert eligible_engines(asked, ["brand-new", "claude"], classes) == ("brand-new",)


def test_engine_name_is_a_slug_or_an_acp_command() -> None:
    assert engine_name("brand-new") == "brand-new"
    assert engine_name("acp: agent --x") == "acp:agent --x"
    for bad in ("acp:", "acp:-x", "Claude", "a/b", "-x"):
        with pytest.raises(ValueError, match=r"name|text|dash"):
            engine_name(bad)
