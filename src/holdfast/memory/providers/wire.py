"""What providers that talk to a server have in common: text that can be sent, and failures with a name."""

from holdfast.core.errors import HoldfastError, ProviderUnavailable, Undeliverable
from holdfast.memory.contract import CompletedTurn

# The server understood the request and will never take it; a person has to look.
NEVER = frozenset({400, 413, 415, 422})
CONFLICT = 409
"""Another writer was there at once, to most servers; to one with keys, another's key."""
LONGEST_EXCERPT = 300


def sendable(text: str) -> str:
    """A text as every server can store it: no half characters, no NUL."""
    return text.encode("utf-8", "replace").decode("utf-8").replace("\x00", "")


def transcript(turn: CompletedTurn) -> str:
    """A turn as one text; empty when nothing was said."""
    said = (("user", turn.user_content), ("assistant", turn.assistant_content))
    return "\n\n".join(f"{who}: {sendable(text).strip()}" for who, text in said if sendable(text).strip())


def refused(
    provider: str, status: int, body: str, retry_after: str | None = None, never: frozenset[int] = NEVER
) -> HoldfastError:
    """An HTTP status as the error that says what comes next: later, never, or after a person's help."""
    said = " ".join(body.split())[:LONGEST_EXCERPT]
    if status in (401, 403):
        return ProviderUnavailable(
            provider,
            problem=f"the server refused the key ({status}: {said}). Run `holdfast memory setup {provider}`; "
            "what is owed stays owed",
        )
    if status in never:
        return Undeliverable(f"{provider} will not take this ({status}): {said}")
    return ProviderUnavailable(provider, seconds(retry_after), f"the server answered {status}: {said}")


def seconds(retry_after: str | None) -> float | None:
    """A Retry-After header in seconds; None for a date or nonsense."""
    try:
        wait = float(retry_after) if retry_after is not None else -1.0
    except ValueError:
        return None
    return min(wait, 3600.0) if wait >= 0 else None
