"""The surface for editors: its parts, and how errors look in it. Read this first, then `editor_agent.py`.

`command.py` is `holdfast acp`. An editor starts it and speaks the Agent Client Protocol with it: JSON-RPC,
one message a line (`stdio_transport.py`). `EditorAgent` answers the requests, each by one call on a host:

- `project_hosts.py` opens a host for each folder that the editor works in;
- `prompt_content.py` makes a message of what the editor sends;
- `turn_updates.py` and `tool_updates.py` make the editor's updates of a turn's events, `replay.py` of what is
  on record; they do nothing else, so that a test can try every event;
- `open_editor.py` is what tools may use of the editor: its files and its terminals;
- `permissions.py` asks the editor's person, `session_options.py` has the modes and the models, and
  `editor_commands.py` the slash commands.

The SDK's models of the protocol are imported by these files, and these files by `command.py` when it runs:
only an installation with the extra `acp` has the SDK.
"""

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from acp import RequestError

from holdfast.core.error_text import error_words
from holdfast.core.errors import HoldfastError, InvalidInput, SessionNotFound

P = ParamSpec("P")
T = TypeVar("T")

INVALID_PARAMS, INTERNAL, NOT_FOUND = -32602, -32603, -32002
CODES: tuple[tuple[type[HoldfastError], int], ...] = (
    (SessionNotFound, NOT_FOUND),
    (InvalidInput, INVALID_PARAMS),
    (HoldfastError, INTERNAL),
)
"""The JSON-RPC code for what went wrong; the first class that fits counts. The message is the error's own."""


def request_error(error: HoldfastError) -> RequestError:
    """The error as the editor gets it."""
    failed = getattr(error, "kind", type(error))
    code = next((code for kind, code in CODES if issubclass(failed, kind)), INTERNAL)
    return RequestError(code, error_words(error))


def in_protocol_words(method: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
    """A method that raises Holdfast's errors as those of the protocol."""

    @wraps(method)
    async def answer(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return await method(*args, **kwargs)
        except HoldfastError as error:
            raise request_error(error) from error

    return answer
