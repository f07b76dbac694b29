"""`LiveOrder`: which of the messages that Discord delivers are new, and how far each channel has got."""

from collections.abc import Mapping, Sequence

MOST_REMEMBERED = 5000


class LiveOrder:
    """For one run of `receive`. Ids of Discord ascend within a channel."""

    def __init__(self, cursors: Mapping[str, int]) -> None:
        # Everything up to the floor is stored; above it, single messages may come late.
        self._floor = dict(cursors)
        self._top = dict(cursors)
        self._taken: dict[int, None] = {}

    def known(self) -> Sequence[tuple[str, int]]:
        return tuple(self._floor.items())

    def discover(self, channel: str) -> bool:
        """Whether this channel was not known; now it is, with nothing stored."""
        if channel in self._floor:
            return False
        self._floor[channel] = 0
        return True

    def caught_up_to(self, channel: str, message: int) -> None:
        self._floor[channel] = self._top[channel] = message

    def take(self, channel: str, event: int) -> bool:
        """False for what was delivered before."""
        if event <= self._floor.get(channel, 0) or event in self._taken:
            return False
        self._taken[event] = None
        if len(self._taken) > MOST_REMEMBERED:
            del self._taken[next(iter(self._taken))]
        return True

    def move(self, channel: str, message: int) -> int:
        """The channel's cursor with this message; it never goes back."""
        self._top[channel] = max(message, self._top.get(channel, 0))
        return self._top[channel]
