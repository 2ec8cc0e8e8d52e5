"""Base class of readers for engines that print JSON lines."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping

from gigafactory.engines.protocol.engine import (
    EngineEvent,
    EngineVerdict,
    SessionStarted,
    Text,
    ToolCall,
    Work,
)
from gigafactory.engines.protocol.json_lines import Record, parse_record
from gigafactory.engines.protocol.tail import Tail
from gigafactory.engines.protocol.usage_counter import SeenIds


class LineReader(ABC):
    """Parses JSON lines; subclasses handle the records."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._model = work.model
        self._session: str | None = None
        self._last_text = ""
        """The last message of the agent."""
        self._stderr = Tail()
        self._tools = SeenIds()

    def read(self, line: str, *, stderr: bool = False) -> Iterable[EngineEvent]:
        """Return the events of a line."""
        if stderr:
            return self._stderr_line(line)
        record = parse_record(line)
        return self._text_line(line) if record is None else self._record(record)

    @abstractmethod
    def end(self, exit_code: int, files: Mapping[str, bytes]) -> EngineVerdict:
        """Return the verdict."""

    @abstractmethod
    def _record(self, record: Record) -> Iterable[EngineEvent]:
        """Handle a JSON record on stdout."""

    def _text_line(self, line: str) -> Iterable[EngineEvent]:
        """Handle a line on stdout that is not a JSON record."""
        del line
        return ()

    def _stderr_line(self, line: str) -> Iterable[EngineEvent]:
        """Handle a line on stderr."""
        self._stderr.add(line)
        return ()

    def _set_session(self, session: str) -> Iterator[EngineEvent]:
        """Record the session id; emit it if it is new."""
        if session and session != self._session:
            self._session = session
            yield SessionStarted(session)

    def _speak(self, words: str) -> Iterator[EngineEvent]:
        """Record and emit a message of the agent."""
        if words:
            self._last_text = words
            yield Text(words)

    def _tool_call(self, name: str, call: str = "") -> Iterator[EngineEvent]:
        """Emit a tool call, once per call id."""
        if self._tools.is_new(call):
            yield ToolCall(name)
