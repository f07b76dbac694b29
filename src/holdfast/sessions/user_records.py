"""What the store knows of accounts, as data: `User`, `UserToken`, `UserIdentity`, and what a name may be.

An account is the scope `user/<id>` with a name, a role and limits (docs/decisions/0041).
"""

import hashlib
import unicodedata
from dataclasses import dataclass
from typing import Literal, get_args

from holdfast.core.errors import InvalidInput
from holdfast.sessions.codec import is_storable

UserRole = Literal["admin", "user", "guest"]
USER_ROLES: tuple[UserRole, ...] = get_args(UserRole)
TokenKind = Literal["token", "sign-in"]
TOKEN_KINDS: tuple[TokenKind, ...] = get_args(TokenKind)

SCOPE_PREFIX = "user/"
"""How the scopes of accounts begin; no account of a chat platform may be called `user`."""
CHAT_ISSUER = "chat:"
"""How the issuer of an identity begins that is a person on an account of a chat platform."""
LONGEST_USER_NAME = 80
MOST_PER_DAY = MOST_STORAGE = 2**53


@dataclass(frozen=True, slots=True)
class User:
    """An account."""

    id: str
    name: str
    role: UserRole
    scope: str
    daily_turns: int | None
    """How many turns may begin within 24 hours; None: any number."""
    daily_tokens: int | None
    """How many tokens the turns of 24 hours may use; None: any number."""
    created: int
    disabled: int | None
    """Since when it can do nothing; None: it can."""
    storage_limit: int | None = None
    """How many bytes its conversations may keep; None: any number."""
    storage_used: int = 0
    """How many they kept when that was measured last; see `storage_use.py`."""

    @property
    def is_full(self) -> bool:
        """Whether its conversations have reached its limit of storage."""
        return self.storage_limit is not None and self.storage_used >= self.storage_limit


@dataclass(frozen=True, slots=True)
class UserToken:
    """What an account shows to be let in, without the secret. A `sign-in` is that of a browser."""

    id: str
    user_id: str
    label: str
    kind: TokenKind
    created: int
    last_used: int | None
    expires: int | None
    revoked: int | None

    def counts_at(self, moment: int) -> bool:
        """Whether it lets in at a moment of the store's clock."""
        return self.revoked is None and (self.expires is None or self.expires > moment)


@dataclass(frozen=True, slots=True)
class UserIdentity:
    """Who an account is elsewhere."""

    issuer: str
    subject: str
    user_id: str
    created: int


@dataclass(frozen=True, slots=True)
class UserChanges:
    """What to change of an account; None leaves it. A limit of -1 takes the limit away."""

    name: str | None = None
    role: UserRole | None = None
    daily_turns: int | None = None
    daily_tokens: int | None = None
    storage_limit: int | None = None

    def of(self, user: User) -> "UserChanges":
        """The account as it is after the change, with checked values."""
        return UserChanges(
            checked_user_name(user.name if self.name is None else self.name),
            checked_role(user.role if self.role is None else self.role),
            checked_per_day(user.daily_turns if self.daily_turns is None else self.daily_turns),
            checked_per_day(user.daily_tokens if self.daily_tokens is None else self.daily_tokens),
            checked_storage(user.storage_limit if self.storage_limit is None else self.storage_limit),
        )

    def told(self) -> str:
        """The change in words, for the audit log."""
        given = {
            "name": self.name,
            "role": self.role,
            "daily_turns": self.daily_turns,
            "daily_tokens": self.daily_tokens,
            "storage_limit": self.storage_limit,
        }
        return ", ".join(
            f"{key}={'none' if value == -1 else value}" for key, value in given.items() if value is not None
        )


def user_scope(user_id: str) -> str:
    return SCOPE_PREFIX + user_id


def is_user_scope(scope: str) -> bool:
    """Whether a scope is that of an account."""
    return scope.startswith(SCOPE_PREFIX)


def name_key(name: str) -> str:
    """What is the same for names that differ only in their case, or in how they are written."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())


def checked_user_name(name: str) -> str:
    """A name on one line that shows what it is: without signs that can't be seen."""
    plain = unicodedata.normalize("NFC", name.strip())
    unseen = any(unicodedata.category(each)[0] in "CZ" and each != " " for each in plain)
    if not 0 < len(plain) <= LONGEST_USER_NAME or unseen or not is_storable(plain):
        raise InvalidInput(
            f"a name is one line of 1 to {LONGEST_USER_NAME} visible characters; nothing was changed"
        )
    return plain


def checked_role(role: str) -> UserRole:
    for known in USER_ROLES:
        if role == known:
            return known
    raise InvalidInput(f"a role is one of {', '.join(USER_ROLES)}, not {role!r:.80}. Nothing was changed.")


def checked_kind(kind: str) -> TokenKind:
    for known in TOKEN_KINDS:
        if kind == known:
            return known
    raise InvalidInput(f"a token's kind is one of {', '.join(TOKEN_KINDS)}, not {kind!r:.80}")


def checked_per_day(limit: int | None) -> int | None:
    """A limit for one day; None, and -1, is no limit."""
    if limit is None or limit == -1:
        return None
    if isinstance(limit, bool) or not 0 <= limit <= MOST_PER_DAY:
        raise InvalidInput(
            f"a limit for one day is a number from 0 on, not {limit!r:.80}. Nothing was changed."
        )
    return limit


def checked_storage(limit: int | None) -> int | None:
    """A limit in bytes; None, and -1, is no limit."""
    if limit is None or limit == -1:
        return None
    if isinstance(limit, bool) or not 0 <= limit <= MOST_STORAGE:
        raise InvalidInput(
            f"a limit of storage is a number of bytes, not {limit!r:.80}. Nothing was changed."
        )
    return limit


def digest_of(secret: str) -> str:
    """What is stored of a secret. It has 256 random bits, so a slow hash would add nothing."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
