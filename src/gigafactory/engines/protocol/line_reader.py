"""What readers share: one line is a record, a complaint or garbage; who speaks, calls, is named."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping

from gigafactory.engines.protocol.engine import RunEvent, Session, Text, ToolCall, Verdict, Work
from gigafactory.engines.protocol.json_lines import Record, record
from gigafactory.engines.protocol.tail import Tail
from gigafactory.engines.protocol.usage_counter import Seen


class LineReader(ABC):
    """Follows one start of an engine that prints JSON lines; what a record means is its own."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._model = work.model
        self._session: str | None = None
        self._said = ""
        """Its last words."""
        self._stderr = Tail()
        self._tools = Seen()

    def read(self, line: str, *, stderr: bool = False) -> Iterable[RunEvent]:
        """What a line means."""
        if stderr:
            return self._complaint(line)
        found = record(line)
        return self._words(line) if found is None else self._record(found)

    @abstractmethod
    def end(self, exit_code: int, files: Mapping[str, bytes]) -> Verdict:
        """What became of it."""

    @abstractmethod
    def _record(self, found: Record) -> Iterable[RunEvent]:
        """What a record on stdout means."""

    def _words(self, line: str) -> Iterable[RunEvent]:
        """What a line on stdout means that is no record."""
        del line
        return ()

    def _complaint(self, line: str) -> Iterable[RunEvent]:
        """What a line on stderr means."""
        self._stderr.add(line)
        return ()

    def _named(self, session: str) -> Iterator[RunEvent]:
        """The session is called so."""
        if session and session != self._session:
            self._session = session
            yield Session(session)

    def _speak(self, words: str) -> Iterator[RunEvent]:
        """The agent says this."""
        if words:
            self._said = words
            yield Text(words)

    def _call(self, name: str, call: str = "") -> Iterator[RunEvent]:
        """The agent uses a tool; a call that is told twice by the same id is one."""
        if self._tools.first(call):
            yield ToolCall(name)
