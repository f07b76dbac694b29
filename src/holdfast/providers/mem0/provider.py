"""`Mem0Memory`: mem0 extracts facts from each turn, on this machine or on its platform.

mem0 has no idempotency key. The metadata of the extracted facts has the key of their turn, so a turn whose
sending was interrupted is looked for before it is sent again. The platform answers before it extracts, and
keeps nothing of a turn without facts: docs/providers.md describes the consequences.
"""

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from holdfast.core.contract import Clock
from holdfast.core.errors import ProviderUnavailable
from holdfast.memory.config import ProviderConfig
from holdfast.memory.contract import CompletedTurn
from holdfast.memory.forgetting import ForgetReport, ForgetRequest
from holdfast.providers.keyless_provider import KeylessProvider
from holdfast.providers.mem0.backends import Mem0Backend, Mem0Library, Mem0Platform
from holdfast.providers.mem0.library import import_mem0
from holdfast.providers.tool_arguments import RequiredText, ToolArguments

MAX_FOUND = 10
MAX_QUERY_LENGTH = 8_000

LOCAL, PLATFORM = {"mode": "local"}, {"mode": "platform"}


class Mem0SearchArguments(ToolArguments):
    """Find facts that were kept from earlier conversations."""

    query: RequiredText = Field(description="What to look for")

    def run(self, memory: "Mem0Memory") -> str:
        return memory.prefetch(self.query) or "Nothing was found."


class Mem0Memory(KeylessProvider):
    """Memory in mem0. One process at a time can use the folder of the local library."""

    name = package = "mem0"
    tools: ClassVar = {"mem0_search": Mem0SearchArguments}

    def __init__(self, folder: Path, clock: Clock | None = None) -> None:
        super().__init__(folder / "mem0", clock)
        self._backend: Mem0Backend | None = None

    def get_config_schema(self) -> list[dict[str, Any]]:
        return [
            {
                "key": "mode",
                "description": "On this machine, or on mem0's platform",
                "default": "local",
                "choices": ["local", "platform"],
            },
            {
                "key": "api_key",
                "description": "Key for the platform",
                "secret": True,
                "required": True,
                "env_var": "MEM0_API_KEY",
                "url": "https://app.mem0.ai",
                "when": PLATFORM,
            },
            {
                "key": "host",
                "description": "Platform",
                "default": "https://api.mem0.ai",
                "when": PLATFORM,
            },
            {
                "key": "llm_url",
                "description": "OpenAI-compatible server that extracts facts",
                "default": "https://api.openai.com/v1",
                "env_var": "OPENAI_BASE_URL",
                "when": LOCAL,
            },
            {
                "key": "llm_api_key",
                "description": "Its key, if it wants one",
                "secret": True,
                "env_var": "OPENAI_API_KEY",
                "when": LOCAL,
            },
            {"key": "llm_model", "description": "Its model", "default": "gpt-4o-mini", "when": LOCAL},
            {
                "key": "embedding_url",
                "description": "Server for embeddings; empty: the same",
                "when": LOCAL,
            },
            {
                "key": "embedding_model",
                "description": "Model for embeddings",
                "default": "text-embedding-3-small",
                "when": LOCAL,
            },
            {"key": "dimensions", "description": "Their dimensions", "default": "1536", "when": LOCAL},
            {"key": "user", "description": "Whose memories these are", "default": "holdfast"},
            {
                "key": "infer",
                "description": "Extract facts; false keeps each message as it is",
                "default": "true",
                "choices": ["true", "false"],
            },
        ]

    def stores_on_host(self, config: ProviderConfig) -> bool:
        return config.text("mode", "local") == "local"

    def check(self, config: ProviderConfig) -> str:
        # A running program has locked the local folder, so a check must not need it.
        if config.text("mode", "local") == "local":
            return self._check_servers(config)
        backend = Mem0Platform(config, self.folder)
        backend.close()
        return f"{config.text('host')} answers"

    def load_library(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        import_mem0(self.folder)
        for each in ("httpx", "openai", "qdrant_client", "mem0.client.main", "mem0.memory.main"):
            importlib.import_module(each)

    def open_client(self, config: ProviderConfig) -> None:
        kind: Callable[[ProviderConfig, Path], Mem0Backend] = (
            Mem0Platform if config.text("mode", "local") == "platform" else Mem0Library
        )
        self._backend = kind(config, self.folder)

    def close_client(self) -> None:
        if self._backend is not None:
            self._backend.close()

    def for_scope(self, scope: str) -> "Mem0Scope":
        """The memory of one scope: that of a user of its own in mem0."""
        return Mem0Scope(self, scope)

    def send(self, turn: CompletedTurn) -> None:
        messages = [
            {"role": role, "content": text}
            for role, text in (("user", turn.user_content), ("assistant", turn.assistant_content))
            if text.strip()
        ]
        if messages:
            self.opened().add(messages, key=turn.key, session_id=turn.session_id)

    def has_turn(self, turn: CompletedTurn) -> bool:
        return self.opened().has(turn.key)

    def forget_selected(self, request: ForgetRequest) -> ForgetReport:
        """Delete the facts that mem0 extracted from the turns; their metadata has the key of the turn."""
        deleted = 0
        for key in request.turn_keys(self.name):
            with self.client_use():
                deleted += self.opened().forget(key)
        return ForgetReport(deleted)

    def prefetch(self, query: str, *, session_id: str = "") -> str:
        if self.closed or not query.strip():
            return ""
        with self.client_use():
            return "\n".join(self.opened().search(query[:MAX_QUERY_LENGTH], MAX_FOUND))

    def system_prompt_block(self) -> str:
        return (
            "Facts from earlier conversations are kept by mem0. What fits a message is recalled by itself;"
            " mem0_search finds more."
        )

    def opened(self) -> Mem0Backend:
        """The backend; raises `ProviderUnavailable` before `initialize`."""
        if self._backend is None:
            raise ProviderUnavailable(self.name, problem="it is not initialised")
        return self._backend

    def _check_servers(self, config: ProviderConfig) -> str:
        from openai import OpenAI

        url = config.text("llm_url", "https://api.openai.com/v1")
        key = config.secret("llm_api_key").reveal() or "none"
        wanted = config.text("embedding_model", "text-embedding-3-small")
        with OpenAI(
            api_key=key, base_url=config.text("embedding_url", url), timeout=8.0, max_retries=0
        ) as client:
            made = client.embeddings.create(input=["holdfast"], model=wanted, encoding_format="float")
        found, configured = len(made.data[0].embedding), int(config.number("dimensions", 1536))
        if found != configured:
            raise ValueError(f"{wanted} has {found} dimensions, not {configured}; set dimensions={found}")
        return f"embeddings answer with {found} dimensions; memories are in {self.folder}"


class Mem0Scope(Mem0Memory):
    """The memory of one scope. It has no client and no keys of its own."""

    def __init__(self, memory: Mem0Memory, scope: str) -> None:
        self._memory = memory
        self._scope = scope
        self._clock = memory.clock
        self._keys = memory.keys

    @property
    def closed(self) -> bool:
        return self._memory.closed

    @contextmanager
    def client_use(self) -> Iterator[None]:
        with self._memory.client_use():
            yield

    def opened(self) -> Mem0Backend:
        return self._memory.opened().of_scope(self._scope)

    def initialize(self, session_id: str, **kwargs: Any) -> None:
        """Nothing: the memory is open."""

    def shutdown(self) -> None:
        """Nothing: the memory closes its client."""
