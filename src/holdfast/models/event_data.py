"""`EventData`: the data of server-sent events, out of bytes as they come from the network."""

LIMIT = 50_000_000
"""Bytes of one event; a server that sends more without an end is broken."""


class EventData:
    """Gives the data of each event once it is whole. What else a line can say is left out."""

    def __init__(self) -> None:
        self._rest: list[bytes] = []  # of a line whose end may still be on its way
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
        """The data of an event that nothing followed any more."""
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
