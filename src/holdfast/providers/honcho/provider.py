"""`HonchoMemory`: sends turns as messages of two peers and recalls Honcho's conclusions about them.

Honcho has no idempotency key for a message, and its client retries a failed POST, which may store a message
twice. Here the client does not retry, a turn is one request, and the metadata of its messages has its key: a
turn whose sending was interrupted is looked for before it is sent again.
"""

import hashlib
import importlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from holdfast.core.contract import Clock
from holdfast.core.errors import ProviderUnavailable, Undeliverable
from holdfast.memory.config import ProviderConfig
from holdfast.memory.contract import CompletedTurn
from holdfast.memory.forgetting import ForgetReport, ForgetRequest, turns_kept
from holdfast.providers.keyless_provider import KeylessProvider
from holdfast.providers.tool_arguments import RequiredText, ToolArguments

KEY = "holdfast_key"
# Honcho refuses longer messages, and more of them in one request.
MAX_MESSAGE_LENGTH = 24_000
MAX_MESSAGES = 100
MAX_ID_LENGTH = 100
MAX_FOUND = 8
SECONDS = 8.0
NOT_IN_AN_ID = re.compile(r"[^A-Za-z0-9_-]")


class HonchoAskArguments(ToolArguments):
    """Ask Honcho about the user; it reasons over everything said so far. Takes some seconds."""

    question: RequiredText = Field(description="What to know about the user")

    def run(self, memory: "HonchoMemory") -> str:
        return memory.ask(self.question) or "Honcho knows nothing about that."


class HonchoSearchArguments(ToolArguments):
    """Find messages of earlier conversations."""

    query: RequiredText = Field(description="What to look for")

    def run(self, memory: "HonchoMemory") -> str:
        return "\n".join(memory.search(self.query)) or "Nothing was found."


class HonchoMemory(KeylessProvider):
    """Memory in Honcho. Its client is safe for calls from two lanes."""

    name = package = "honcho"
    tools: ClassVar = {"honcho_ask": HonchoAskArguments, "honcho_search": HonchoSearchArguments}

    def __init__(self, folder: Path, clock: Clock | None = None) -> None:
        super().__init__(folder / "honcho", clock)
        self._client: Any = None
        self._http: Any = None
        self._user: Any = None
        self._assistant: Any = None

    def get_config_schema(self) -> list[dict[str, Any]]:
        return [
            {
                "key": "api_key",
                "description": "API key; empty for a server of your own without one",
                "secret": True,
                "env_var": "HONCHO_API_KEY",
                "url": "https://app.honcho.dev",
            },
            {"key": "url", "description": "Where Honcho is", "default": "https://api.honcho.dev"},
            {"key": "workspace", "description": "Workspace", "default": "holdfast"},
            {"key": "user", "description": "Name of the user's peer", "default": "user"},
            {"key": "assistant", "description": "Name of the assistant's peer", "default": "assistant"},
        ]

    def check(self, config: ProviderConfig) -> str:
        client, http = _client(config)
        try:
            with translated(self.name):
                client.peer(_id(config.text("user", "user")))
        finally:
            http.close()
        return f"{config.text('url')} answers, workspace {config.text('workspace')}"

    def load_library(self) -> None:
        for each in ("httpx", "honcho", "honcho.http.exceptions"):
            importlib.import_module(each)

    def open_client(self, config: ProviderConfig) -> None:
        client, http = _client(config)
        try:
            with translated(self.name):
                self._user = client.peer(_id(config.text("user", "user")))
                self._assistant = client.peer(_id(config.text("assistant", "assistant")))
        except BaseException:
            http.close()
            raise
        self._client, self._http = client, http

    def close_client(self) -> None:
        if self._http is not None:
            self._http.close()

    def send(self, turn: CompletedTurn) -> None:
        messages = [
            peer.message(
                part, metadata={KEY: turn.key}, created_at=datetime.fromtimestamp(turn.completed, UTC)
            )
            for peer, text in (
                (self._user, turn.user_content),
                (self._assistant, turn.assistant_content),
            )
            for part in _parts(text)
        ]
        if not messages:
            return
        if len(messages) > MAX_MESSAGES:
            raise Undeliverable(f"a turn of {len(messages)} parts is more than Honcho takes at once")
        with translated(self.name):
            self._client.session(_id(turn.session_id)).add_messages(messages)

    def has_turn(self, turn: CompletedTurn) -> bool:
        with translated(self.name):
            session = self._client.session(_id(turn.session_id))
            return bool(session.messages(filters={"metadata": {KEY: turn.key}}, size=1).items)

    def forget_selected(self, request: ForgetRequest) -> ForgetReport:
        """Delete whole sessions with all that Honcho concluded from them; it can't delete single messages."""
        deleted = 0
        for session_id in request.sessions:
            with self.client_use(), translated(self.name):
                deleted += self._delete_session(_id(session_id))
        return ForgetReport(deleted, turns_kept(request))

    def _delete_session(self, session: str) -> bool:
        from honcho.http.exceptions import NotFoundError

        try:
            self._client.session(session).delete()
        except NotFoundError:
            return False
        return True

    def prefetch(self, query: str, *, session_id: str = "") -> str:
        """Honcho's conclusions and earlier messages that match the query."""
        if self.closed or not query.strip():
            return ""
        with self.client_use(), translated(self.name):
            context = self._user.context(search_query=query[:MAX_MESSAGE_LENGTH], search_top_k=MAX_FOUND)
            messages = self.search(query)
        lines = [*(context.peer_card or ()), *((context.representation or "").splitlines()), *messages]
        return "\n".join(dict.fromkeys(line.strip() for line in lines if line.strip()))

    def ask(self, question: str) -> str:
        """Honcho's answer to a question about the user."""
        with self.client_use(), translated(self.name):
            return self._user.chat(question) or ""

    def search(self, query: str) -> list[str]:
        """The earlier messages that match the query, each with its speaker."""
        with self.client_use(), translated(self.name):
            found = self._client.search(query[:MAX_MESSAGE_LENGTH], limit=MAX_FOUND)
            return [f"{each.peer_id}: {each.content}" for each in found]

    def system_prompt_block(self) -> str:
        return (
            "Honcho remembers the user across conversations. What fits a message is recalled by itself;"
            " honcho_ask answers questions about the user, honcho_search finds what was said."
        )


def _client(config: ProviderConfig) -> tuple[Any, Any]:
    """The client and its HTTP client, which the client itself can't close."""
    import httpx
    from honcho import Honcho

    http = httpx.Client(timeout=SECONDS)
    client = Honcho(
        # Without a key the client would take one from the environment.
        api_key=config.secret("api_key").reveal() or "none",
        base_url=config.text("url", "https://api.honcho.dev"),
        workspace_id=_id(config.text("workspace", "holdfast")),
        timeout=SECONDS,
        max_retries=0,
        http_client=http,
    )
    return client, http


@contextmanager
def translated(provider: str) -> Iterator[None]:
    """Translate the errors of Honcho into ours."""
    from honcho.http import exceptions

    try:
        yield
    except exceptions.RateLimitError as cause:
        raise ProviderUnavailable(provider, cause.retry_after) from cause
    except (exceptions.BadRequestError, exceptions.UnprocessableEntityError) as cause:
        raise Undeliverable(f"{provider} refuses it: {cause}") from cause


def _id(text: str) -> str:
    """A name that Honcho accepts; different names stay different."""
    if text and len(text) <= MAX_ID_LENGTH and not NOT_IN_AN_ID.search(text):
        return text
    digest = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]
    return f"{NOT_IN_AN_ID.sub('-', text)[: MAX_ID_LENGTH - 17]}-{digest}"


def _parts(text: str) -> Iterator[str]:
    """The text in parts that fit into a message, without parts of whitespace, which Honcho refuses."""
    # Honcho uses PostgreSQL, which can't store NUL.
    whole = text.replace("\x00", "\N{REPLACEMENT CHARACTER}")
    for start in range(0, len(whole), MAX_MESSAGE_LENGTH):
        part = whole[start : start + MAX_MESSAGE_LENGTH]
        if part.strip():
            yield part
