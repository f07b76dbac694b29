"""`LiveOrder`: which of the messages that Discord delivers are new, and how far each channel has got."""

from collections.abc import Mapping, Sequence

MOST_REMEMBERED = 5000
ACCOUNT = ""
"""The name of the cursor of the whole account."""
LATE = 60_000 << 22
"""How far the account's cursor stays behind, as a difference of ids: a minute.

A message of one channel may come after a younger one of another.
"""


class LiveOrder:
    """For one run of `receive`. Ids of Discord ascend within a channel."""

    def __init__(self, cursors: Mapping[str, int]) -> None:
        # Everything up to the floor is stored; above it, single messages may come late.
        self._floor = {name: last for name, last in cursors.items() if name != ACCOUNT}
        self._top = dict(self._floor)
        # Before there was one, the youngest message that is stored says as much.
        self._account = cursors.get(ACCOUNT) or max(self._floor.values(), default=0)
        self._taken: dict[int, None] = {}

    def known(self) -> Sequence[tuple[str, int]]:
        return tuple(self._floor.items())

    def discover(self, channel: str, after: int = 0) -> bool:
        """Whether this channel was not known; now it is, with nothing stored after this message."""
        if channel in self._floor:
            return False
        self._floor[channel] = after
        return True

    def spoken_in(self, last: Mapping[str, int], begun: int) -> Sequence[tuple[str, int]]:
        """Of channels with their last messages the unknown ones with something new, and from where on.

        Without a cursor of the account this is the first start: what is there now is the past. `begun` is the
        bot's own id, which is older than all that it can have missed.
        """
        if not self._account:
            self._account = max([begun, *last.values()])
            return ()
        after = self._account
        return [(name, after) for name, own in last.items() if own > after and self.discover(name, after)]

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

    def account_cursor(self) -> dict[str, str]:
        """Up to where everything is stored, in whichever channel it was said; it never goes back."""
        self._account = max(self._account, max(self._top.values(), default=0) - LATE)
        return {ACCOUNT: str(self._account)} if self._account else {}

    def move(self, channel: str, message: int) -> int:
        """The channel's cursor with this message; it never goes back."""
        self._top[channel] = max(message, self._top.get(channel, 0))
        return self._top[channel]
