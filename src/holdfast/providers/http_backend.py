"""Shared by providers with an HTTP server: a turn as text, and the failures of HTTP as our errors."""

from holdfast.core.errors import HoldfastError, ProviderUnavailable, Undeliverable
from holdfast.core.messages import storable
from holdfast.memory.contract import CompletedTurn

# The server will never accept the request, so a person has to decide.
NEVER = frozenset({400, 413, 415, 422})
CONFLICT = 409
"""For most servers a concurrent write; for a server with idempotency keys, a key used for other content."""
MAX_EXCERPT_LENGTH = 300


def transcript(turn: CompletedTurn) -> str:
    """A turn as one text; empty when both sides are empty."""
    texts = (("user", turn.user_content), ("assistant", turn.assistant_content))
    return "\n\n".join(f"{role}: {storable(text).strip()}" for role, text in texts if storable(text).strip())


def http_failure(
    provider: str, status: int, body: str, retry_after: str | None = None, never: frozenset[int] = NEVER
) -> HoldfastError:
    """The error for an HTTP status: retry later, never retry, or ask a person."""
    excerpt = " ".join(body.split())[:MAX_EXCERPT_LENGTH]
    if status in (401, 403):
        return ProviderUnavailable(
            provider,
            problem=f"the server refused the key ({status}: {excerpt}). "
            f"Run `holdfast memory setup {provider}`; what is owed stays owed",
        )
    if status in never:
        return Undeliverable(f"{provider} will not take this ({status}): {excerpt}")
    return ProviderUnavailable(
        provider, retry_after_seconds(retry_after), f"the server answered {status}: {excerpt}"
    )


def client_failure(provider: str, error: Exception, *network_errors: type[Exception]) -> HoldfastError:
    """The error for an exception of a client; `network_errors` are the client's own for the network."""
    if isinstance(error, HoldfastError):
        return error
    if isinstance(error, (OSError, *network_errors)):
        problem = f"{type(error).__name__}: {str(error) or 'no answer in time'}"
    else:
        problem = f"its answer can't be understood ({error!r})"
    return ProviderUnavailable(provider, problem=problem)


def retry_after_seconds(retry_after: str | None) -> float | None:
    """The seconds of a Retry-After header; None for a date or an invalid value."""
    try:
        wait = float(retry_after) if retry_after is not None else -1.0
    except ValueError:
        return None
    return min(wait, 3600.0) if wait >= 0 else None
