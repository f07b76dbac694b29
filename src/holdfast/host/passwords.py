"""`Passwords`: argon2id for the passwords of accounts. It takes a tenth of a second: call it off the loop.

The parameters are those of RFC 9106 for servers with little memory; a hash has its own inside. A password
that fits a hash with other parameters is hashed anew.
"""

import unicodedata
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from holdfast.core.distribution import install_command
from holdfast.core.errors import InvalidInput
from holdfast.core.secret import Secret

if TYPE_CHECKING:
    from argon2 import PasswordHasher

LEAST_LENGTH = 10
MOST_LENGTH = 1_000
ROUNDS, MEMORY_KIB, LANES = 3, 64 * 1024, 4


@dataclass(frozen=True, slots=True)
class CheckedPassword:
    """Whether a password fits; `renewed` is the hash to keep from now on, if it is another one."""

    fits: bool
    renewed: str | None = None


class Passwords:
    """Makes and checks hashes."""

    def __init__(self, rounds: int = ROUNDS, memory_kib: int = MEMORY_KIB) -> None:
        self._rounds = rounds
        self._memory_kib = memory_kib

    def hash(self, password: Secret) -> str:
        """The hash to keep. Raises `InvalidInput` for a password that is too short or too long."""
        plain = password.reveal()
        if not LEAST_LENGTH <= len(plain) <= MOST_LENGTH:
            raise InvalidInput(
                f"a password has {LEAST_LENGTH} to {MOST_LENGTH:,} characters, and this one has "
                f"{len(plain):,}. Nothing was changed."
            )
        return self._hasher.hash(_encoded(plain))

    def check(self, kept: str | None, password: Secret) -> CheckedPassword:
        """Whether a password fits a hash. Without a hash it takes the same work, and nothing fits."""
        from argon2.exceptions import InvalidHashError, VerificationError

        # Made for every first check, or the first unknown name would take longer.
        nobody = self._hash_of_nobody
        given = _encoded(password.reveal()[:MOST_LENGTH])
        try:
            self._hasher.verify(nobody if kept is None else kept, given)
        except (VerificationError, InvalidHashError):
            return CheckedPassword(fits=False)
        if kept is None:
            return CheckedPassword(fits=False)
        return CheckedPassword(
            True, self._hasher.hash(given) if self._hasher.check_needs_rehash(kept) else None
        )

    @cached_property
    def _hasher(self) -> "PasswordHasher":
        try:
            from argon2 import PasswordHasher, Type
        except ImportError as cause:
            raise InvalidInput(f"passwords need the extra: {install_command('users')}") from cause
        return PasswordHasher(self._rounds, self._memory_kib, LANES, type=Type.ID)

    @cached_property
    def _hash_of_nobody(self) -> str:
        return self._hasher.hash(b"the password of nobody")


def _encoded(password: str) -> bytes:
    # Keyboards write one letter in several ways.
    return unicodedata.normalize("NFKC", password).encode("utf-8", "surrogatepass")
