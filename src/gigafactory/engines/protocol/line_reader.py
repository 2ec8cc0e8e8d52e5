"""What readers share: one line is a record, a complaint or garbage; who speaks, calls, is named."""

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
    """Follows one start of an engine that prints JSON lines; what a record means is its own."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._model = work.model
        self._session: str | None = None
        self._last_text = ""
        """Its last words."""
        self._stderr = Tail()
        self._tools = SeenIds()

    def read(self, line: str, *, stderr: bool = False) -> Iterable[EngineEvent]:
        """What a line means."""
        if stderr:
            return self._stderr_line(line)
        found = parse_record(line)
        return self._text_line(line) if found is None else self._record(found)

    @abstractmethod
    def end(self, exit_code: int, files: Mapping[str, bytes]) -> EngineVerdict:
        """What became of it."""

    @abstractmethod
    def _record(self, found: Record) -> Iterable[EngineEvent]:
        """What a record on stdout means."""

    def _text_line(self, line: str) -> Iterable[EngineEvent]:
        """What a line on stdout means that is no record."""
        del line
        return ()

    def _stderr_line(self, line: str) -> Iterable[EngineEvent]:
        """What a line on stderr means."""
        self._stderr.add(line)
        return ()

    def _set_session(self, session: str) -> Iterator[EngineEvent]:
        """The session is called so."""
        if session and session != self._session:
            self._session = session
            yield SessionStarted(session)

    def _speak(self, words: str) -> Iterator[EngineEvent]:
        """The agent says this."""
        if words:
            self._last_text = words
            yield Text(words)

    def _tool_call(self, name: str, call: str = "") -> Iterator[EngineEvent]:
        """The agent uses a tool; a call that is told twice by the same id is one."""
        if self._tools.is_new(call):
            yield ToolCall(name)
