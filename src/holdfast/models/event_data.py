"""`EventData`: the data of server-sent events, out of bytes as they come from the network."""

LIMIT = 50_000_000
"""Bytes of one event; a server that sends more without an end is broken."""


class EventData:
    """Gives the data of each event once it is whole. What else a line can say is left out."""

    def __init__(self) -> None:
        self._rest = b""
        self._lines: list[bytes] = []

    def feed(self, content: bytes) -> list[str]:
        """The data of the events that these bytes complete."""
        *lines, rest = (self._rest + content).replace(b"\r\n", b"\n").split(b"\n")
        # The other half of a line's end may still be on its way.
        self._rest = rest
        if len(rest) > LIMIT:
            raise ValueError("an event without an end")
        found = []
        for line in lines:
            if line.startswith(b"data:"):
                self._lines.append(line[6:] if line.startswith(b"data: ") else line[5:])
            elif not line.rstrip(b"\r") and self._lines:
                found.append(self._whole())
        return found

    def end(self) -> list[str]:
        """The data of an event that nothing followed any more."""
        found = self.feed(b"\n") if self._rest else []
        return [*found, *([self._whole()] if self._lines else [])]

    def _whole(self) -> str:
        data = b"\n".join(self._lines).decode("utf-8", "replace")
        self._lines.clear()
        return data
