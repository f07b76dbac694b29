"""`EventData`: reads the data of server-sent events from bytes while they arrive."""

LIMIT = 50_000_000
"""Bytes of one event; a server that sends more without an end is broken."""


class EventData:
    """Returns the data of each complete event. Other fields of an event are ignored."""

    def __init__(self) -> None:
        self._rest: list[bytes] = []  # the beginning of a line whose end has not arrived
        self._lines: list[str] = []
        self._size = 0

    def feed(self, content: bytes) -> list[str]:
        """The data of the events that these bytes complete."""
        end = content.rfind(b"\n") + 1
        found = self._read(b"".join((*self._rest, content[:end]))) if end else []
        if end:
            self._rest.clear()
        if end < len(content):
            self._rest.append(content[end:])
        self._size = len(content) - end if found else self._size + len(content)
        if self._size > LIMIT:
            raise ValueError("an event without an end")
        return found

    def end(self) -> list[str]:
        """The data of a last event without an empty line after it."""
        found = self.feed(b"\n") if self._rest else []
        return [*found, *([self._whole()] if self._lines else [])]

    def _read(self, lines: bytes) -> list[str]:
        found = []
        for line in lines.decode("utf-8", "replace").replace("\r\n", "\n").split("\n")[:-1]:
            if line.startswith("data:"):
                self._lines.append(line[6:] if line.startswith("data: ") else line[5:])
            elif self._lines and not line.rstrip("\r"):
                found.append(self._whole())
        return found

    def _whole(self) -> str:
        data = "\n".join(self._lines)
        self._lines.clear()
        return data
