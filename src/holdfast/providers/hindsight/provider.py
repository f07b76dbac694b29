"""`HindsightMemory`: long-term memory on a Hindsight server. Read `api.py` for how a turn is delivered.

The client runs on an event loop on its own thread, which is the only writer: the lanes wait for its answers,
and `shutdown` closes the client on that same thread.
"""

import importlib
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

from holdfast.core.contract import Clock
from holdfast.core.distribution import install_command
from holdfast.core.errors import ProviderInvalid, ProviderUnavailable
from holdfast.memory.config import ProviderConfig
from holdfast.memory.contract import CompletedTurn
from holdfast.providers.batch_provider import BatchProvider
from holdfast.providers.client_loop import DRAIN_SECONDS, ClientLoop, ask_once, close_at_exit
from holdfast.providers.hindsight.api import NAME, HindsightApi
from holdfast.providers.hindsight.local_server import LocalServer, find_program
from holdfast.providers.hindsight.settings import SCHEMA, HindsightSettings, read_settings
from holdfast.providers.hindsight.tools import TOOLS
from holdfast.providers.recall_text import one_line, recall_block_text

T = TypeVar("T")

LOCAL_START_SECONDS = 90.0
LOOK_SECONDS = 0.5
MAX_LINE_LENGTH = 600


class HindsightMemory(BatchProvider):
    """Retains each turn once, recalls and reflects. Thread-safe once initialised."""

    tools = TOOLS

    def __init__(self, folder: Path, clock: Clock, *, environment: Mapping[str, str]) -> None:
        self._folder = folder
        self._clock = clock
        self._environment = environment
        self._loop = ClientLoop(NAME)
        self._settings: HindsightSettings | None = None
        self._server: LocalServer | None = None
        self._url = ""
        self._api: HindsightApi | None = None
        close_at_exit(self)

    @property
    def name(self) -> str:
        return NAME

    @property
    def closed(self) -> bool:
        return self._loop.closing.is_set()

    def is_available(self) -> bool:
        if find_spec("hindsight_client") is None:
            raise ProviderInvalid(NAME, f"its client is not installed; run: {install_command(NAME)}")
        return True

    def get_config_schema(self) -> list[dict[str, Any]]:
        return [dict(field) for field in SCHEMA]

    def initialize(self, session_id: str, **kwargs: Any) -> None:
        """Read the settings and, in local mode, start the server and wait until it answers."""
        config = kwargs.get("config") or ProviderConfig()
        self._settings = read_settings(config, Path.cwd())
        importlib.import_module("hindsight_client")  # takes a second, too long for the first recall
        if self._settings.local is not None:
            self._server = LocalServer(self._settings.local, self._folder, self._environment)
            self._wait_for_server(self._server)
        else:
            self._url = self._settings.url

    def check(self, config: ProviderConfig) -> str:
        """Ask the server for its version; in local mode, check that its program is installed."""
        settings = read_settings(config, Path.cwd())
        if settings.local is not None:
            program = find_program(settings.local.command, self._environment)
            return f"a local server, started by Holdfast from {program}"

        async def ask(loop: ClientLoop) -> str:
            api = HindsightApi(settings, loop.closing.is_set)
            try:
                await api.recall("hello", budget="low", tokens=100, tags=())
                return await api.version()
            finally:
                await api.aclose()

        version = ask_once(NAME, ask, settings.timeout_s * 2)
        return f"Hindsight {version} at {settings.url}, bank {settings.bank}"

    # writing

    def sync_turns(self, turns: Sequence[CompletedTurn]) -> None:
        """Return when the server has processed every turn; after an error all may be sent again."""
        settings = self._require_settings()
        self._ensure_server()
        limit = (settings.settle_s + settings.timeout_s * 2) * len(turns)
        self._run(lambda api: api.deliver(turns), limit)

    # reading

    def prefetch(self, query: str, *, session_id: str = "") -> str:
        settings = self._require_settings()
        lines = self.recall(
            query,
            budget=settings.recall_budget,
            tokens=settings.recall_tokens,
            tags=list(settings.recall_tags),
        )
        return recall_block_text(lines)

    def recall(self, query: str, *, budget: str | None, tokens: int, tags: list[str]) -> list[str]:
        """The facts for the query, best match first, one line each."""
        settings = self._require_settings()
        found = self._run(
            lambda api: api.recall(query, budget=budget or settings.recall_budget, tokens=tokens, tags=tags),
            settings.timeout_s,
        )
        return list(dict.fromkeys(_line(fact) for fact in found))

    def reflect(self, query: str, *, budget: str | None, tags: list[str]) -> str:
        """The server's own answer from its memories."""
        settings = self._require_settings()
        return self._run(
            lambda api: api.reflect(query, budget=budget or settings.reflect_budget, tags=tags),
            settings.timeout_s,
        )

    def retain(self, content: str, tags: list[str]) -> None:
        """Store a single fact."""
        settings = self._require_settings()
        self._run(lambda api: api.keep_note(content, tags), settings.settle_s + settings.timeout_s * 2)

    def system_prompt_block(self) -> str:
        return (
            "You have a long-term memory on Hindsight. What fits a message is recalled by itself. Use"
            " hindsight_recall to look for more, hindsight_reflect for a reasoned answer over all of it, and"
            " hindsight_retain for a fact that later conversations should know."
        )

    # ending

    def shutdown(self, patience: float = DRAIN_SECONDS) -> None:
        """Refuse further calls, let a running write finish, then close the client and our own server."""
        self._loop.close(self._aclose, patience)
        server = self._server
        if server is not None:
            server.stop(for_good=True)

    async def _aclose(self) -> None:
        api, self._api = self._api, None
        if api is not None:
            await api.aclose()

    def _require_settings(self) -> HindsightSettings:
        if self._settings is None:
            raise ProviderUnavailable(NAME, problem="it is not initialised")
        return self._settings

    def _run(self, call: Callable[[HindsightApi], Coroutine[Any, Any, T]], limit: float) -> T:
        settings = self._require_settings()

        async def on_loop() -> T:
            if self._api is None:
                # Imported and created here: an aiohttp session belongs to the loop that creates it.
                self._api = HindsightApi(replace(settings, url=self._url), self._loop.closing.is_set)
            return await call(self._api)

        return self._loop.run(on_loop, limit)

    # a server of our own

    def _ensure_server(self) -> None:
        """In local mode, make sure that a server runs: the process that ran it may have ended."""
        if self._server is not None and self._server.address() != self._url:
            self._wait_for_server(self._server)

    def _wait_for_server(self, server: LocalServer) -> None:
        settings = self._require_settings()
        deadline = self._clock.monotonic() + LOCAL_START_SECONDS
        while True:
            address = server.address()
            if address != self._url:
                self._url = address
                self._loop.run(self._aclose)
            try:
                self._run(lambda api: api.version(), settings.timeout_s)
            except ProviderUnavailable as cause:
                if self._clock.monotonic() >= deadline:
                    problem = f"its local server did not start; its log is {server.log}: {server.log_tail()}"
                    raise ProviderUnavailable(NAME, problem=problem) from cause
            else:
                return
            self._clock.wait(self._loop.closing, LOOK_SECONDS)


def _line(fact: Any) -> str:
    text = one_line(str(fact.text), MAX_LINE_LENGTH)
    when = fact.occurred_start or fact.mentioned_at
    return f"- [{_day(when)}] {text}" if when else f"- {text}"


def _day(when: str) -> str:
    try:
        moment = datetime.fromisoformat(when)
    except ValueError:
        return when
    return f"{moment.day} {moment:%B %Y}"


def in_folder(folder: Path, clock: Clock, environment: Mapping[str, str] | None = None) -> HindsightMemory:
    """Create the provider `hindsight`. A local server is found and started with this environment."""
    return HindsightMemory(folder, clock, environment=environment or {})
