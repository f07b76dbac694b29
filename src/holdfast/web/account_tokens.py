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
        if not given.startswith(TOKEN_PREFIX.encode()) or len(given) > LONGEST_TOKEN:
            return None
        token = given.decode("utf-8", "replace")
        digest, now = digest_of(token), self._clock.monotonic()
        known = self._known.get(digest)
        if known is not None and now < known[1]:
            return known[0]
        with limit_reads(OWNER):  # a stream asks in the middle of a request, which may see no tokens
            found = await self._host.accounts.users(Users.signed_in, token)
        self._known.pop(digest, None)
        if found is None:
            return None
        principal = Principal(*found)
        self._known[digest] = (principal, now + REMEMBERED_SECONDS)
        if len(self._known) > MOST_REMEMBERED:
            self._known.popitem(last=False)
        return principal

    def forget(self) -> None:
        """Something was changed here that counts at once."""
        self._known.clear()
