"""The plug-in API of engines: how an agent is started, and how its output is read."""

from gigafactory.engines.protocol.engine import (
    Engine,
    EngineEvent,
    EngineReader,
    EngineVerdict,
    Failure,
    FailureKind,
    Retrying,
    SendInput,
    SessionStarted,
    Start,
    Text,
    ToolCall,
    UsageUpdate,
    Work,
)
from gigafactory.engines.protocol.failure import (
    classify,
    classify_refusal,
    failure_patterns,
    failure_without_result,
    shorten,
)
from gigafactory.engines.protocol.line_reader import LineReader

__all__ = [
    "Engine",
    "EngineEvent",
    "EngineReader",
    "EngineVerdict",
    "Failure",
    "FailureKind",
    "LineReader",
    "Retrying",
    "SendInput",
    "SessionStarted",
    "Start",
    "Text",
    "ToolCall",
    "UsageUpdate",
    "Work",
    "classify",
    "classify_refusal",
    "failure_patterns",
    "failure_without_result",
    "shorten",
]
