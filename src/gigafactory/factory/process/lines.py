"""Splits program output into lines of bounded length."""

LINE_BYTES_MAX = 1024 * 1024


class LineSplitter:
    """Collects bytes and returns complete lines; overlong lines are cut."""

    def __init__(self, bytes_max: int = LINE_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._held = bytearray()
        self._too_long = False
        self.cut = 0
        """The number of lines that were cut."""

    def feed(self, data: bytes) -> list[str]:
        """Return the lines that end in this chunk; invalid UTF-8 is replaced."""
        *ends, rest = data.split(b"\n")
        lines = []
        if ends:
            self._hold(ends[0])
            lines.append(self._take())
            lines += map(self._whole, ends[1:])
        self._hold(rest)
        return lines

    def finish(self) -> list[str]:
        """Return the last line if it has no line break."""
        return [self._take()] if self._held else []

    def _hold(self, part: bytes) -> None:
        room = self._bytes_max - len(self._held)
        if len(part) > room:
            self._too_long = True
        self._held += part[:room]

    def _take(self) -> str:
        text = _decoded(self._held)
        self._held = bytearray()
        self.cut += self._too_long
        self._too_long = False
        return text

    def _whole(self, line: bytes) -> str:
        self.cut += len(line) > self._bytes_max
        return _decoded(line[: self._bytes_max])


def _decoded(line: bytes | bytearray) -> str:
    return line.removesuffix(b"\r").decode("utf-8", "replace")
