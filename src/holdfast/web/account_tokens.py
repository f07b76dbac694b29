"""`AccountTokens`: whose token a request shows, asked of the store off the loop and remembered for a moment.

What is remembered ends after `REMEMBERED_SECONDS`: that is how long a token can count after it was revoked,
or its account disabled, here and in every other process. A wrong token is not remembered.
"""

from collections import OrderedDict

from holdfast.core.contract import Clock
from holdfast.host import SessionHost, limit_reads
from holdfast.sessions.contract import OWNER
from holdfast.sessions.user_records import digest_of
from holdfast.sessions.users import TOKEN_PREFIX, Users
from holdfast.web.principal import Principal

REMEMBERED_SECONDS = 2.0
MOST_REMEMBERED = 2_000
LONGEST_TOKEN = 200


class AccountTokens:
    """Finds the account of a token. On the host's loop."""

    def __init__(self, host: SessionHost, clock: Clock) -> None:
        self._host = host
        self._clock = clock
        self._known: OrderedDict[str, tuple[Principal, float]] = OrderedDict()

    async def principal(self, given: bytes) -> Principal | None:
        """For whom a token acts; None when it is that of no account that may do something."""
        if not _may_be_one(given):
            return None
        digest, now = digest_of(_text(given)), self._clock.monotonic()
        known = self._known.get(digest)
        if known is not None and now < known[1]:
            return known[0]
        self._known.pop(digest, None)
        principal = await self.asked(given)
        if principal is None:
            return None
        self._known[digest] = (principal, now + REMEMBERED_SECONDS)
        if len(self._known) > MOST_REMEMBERED:
            self._known.popitem(last=False)
        return principal

    async def asked(self, given: bytes) -> Principal | None:
        """The same, as the store knows it now: for what outlives the token."""
        if not _may_be_one(given):
            return None
        with limit_reads(OWNER):  # a stream asks in the middle of a request, which may see no tokens
            found = await self._host.accounts.users(Users.signed_in, _text(given))
        return None if found is None else Principal(*found)

    def forget(self) -> None:
        """Something was changed here that counts at once."""
        self._known.clear()


def _may_be_one(given: bytes) -> bool:
    return given.startswith(TOKEN_PREFIX.encode()) and len(given) <= LONGEST_TOKEN


def _text(given: bytes) -> str:
    return given.decode("utf-8", "replace")
