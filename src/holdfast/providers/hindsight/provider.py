"""`HindsightMemory`: long-term memory on a Hindsight server. Read `api.py` for how a turn is delivered."""

import importlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from holdfast.core.contract import Clock
from holdfast.core.errors import ProviderUnavailable
from holdfast.memory.config import ProviderConfig
from holdfast.memory.contract import CompletedTurn
from holdfast.memory.forgetting import ForgetReport, ForgetRequest, turns_kept
from holdfast.providers.hindsight.api import NAME, HindsightApi
from holdfast.providers.hindsight.local_server import LocalServer, find_program
from holdfast.providers.hindsight.settings import SCHEMA, HindsightSettings, read_settings
from holdfast.providers.hindsight.tools import TOOLS
from holdfast.providers.recall_text import one_line, recall_block_text
from holdfast.providers.server_provider import DRAIN_SECONDS, ServerProvider, ask_once
from holdfast.sessions.contract import scope_folder

T = TypeVar("T")

LOCAL_START_SECONDS = 90.0
LOOK_SECONDS = 0.5
MAX_LINE_LENGTH = 600


class HindsightMemory(ServerProvider[HindsightSettings, HindsightApi]):
    """Retains each turn once, recalls and reflects. Thread-safe once initialised."""

    name = NAME
    package = "hindsight_client"
    tools = TOOLS
    schema = SCHEMA

    def __init__(self, folder: Path, clock: Clock, *, environment: Mapping[str, str]) -> None:
        super().__init__(clock)
        self._folder = folder
        self._environment = environment
        self._server: LocalServer | None = None
        self._url = ""

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

    def stores_on_host(self, config: ProviderConfig) -> bool:
        return config.text("mode") == "local" and not config.text("database_url")

    def check(self, config: ProviderConfig) -> str:
        """Ask the server for its version; in local mode, check that its program is installed."""
        settings = read_settings(config, Path.cwd())
        if settings.local is not None:
            program = find_program(settings.local, self._environment)
            return f"a local server, started by Holdfast from {program}"

        async def ask(api: HindsightApi) -> str:
            await api.recall("hello", budget="low", tokens=100, tags=())
            return await api.version()

        version = ask_once(
            NAME, lambda loop: HindsightApi(settings, loop.closing.is_set), ask, settings.timeout_s * 2
        )
        return f"Hindsight {version} at {settings.url}, bank {settings.bank}"

    def open_client(self) -> HindsightApi:
        return HindsightApi(replace(self.settings, url=self._url), self._loop.closing.is_set)

    def for_scope(self, scope: str) -> "HindsightScope":
        """The memory of one scope, in a bank of its own."""
        return HindsightScope(self, scope)

    # writing

    def sync_turns(self, turns: Sequence[CompletedTurn]) -> None:
        """Return when the server has processed every turn; after an error all may be sent again."""
        self.ensure_server()
        self.ask(lambda api: api.deliver(turns), self._write_seconds() * len(turns))

    def forget_selected(self, request: ForgetRequest) -> ForgetReport:
        """Delete the documents of whole conversations; the server can't delete single turns."""
        self.ensure_server()

        async def delete(api: HindsightApi) -> int:
            return sum([await api.delete_conversation(each) for each in request.sessions])

        seconds = self.settings.timeout_s * (1 + len(request.sessions))
        return ForgetReport(self.ask(delete, seconds), turns_kept(request))

    def _write_seconds(self) -> float:
        """How long one turn or note may take."""
        return self.settings.settle_s + self.settings.timeout_s * 2

    # reading

    def prefetch(self, query: str, *, session_id: str = "") -> str:
        wanted = self.settings
        lines = self.recall(query, budget=None, tokens=wanted.recall_tokens, tags=list(wanted.recall_tags))
        return recall_block_text(lines)

    def recall(self, query: str, *, budget: str | None, tokens: int, tags: list[str]) -> list[str]:
        """The facts for the query, best match first, one line each."""
        effort = budget or self.settings.recall_budget
        found = self.ask(lambda api: api.recall(query, budget=effort, tokens=tokens, tags=tags))
        return list(dict.fromkeys(_line(fact) for fact in found))

    def reflect(self, query: str, *, budget: str | None, tags: list[str]) -> str:
        """The server's own answer from its memories."""
        effort = budget or self.settings.reflect_budget
        return self.ask(lambda api: api.reflect(query, budget=effort, tags=tags))

    def retain(self, content: str, tags: list[str]) -> None:
        """Store a single fact."""
        self.ask(lambda api: api.keep_note(content, tags), self._write_seconds())

    def system_prompt_block(self) -> str:
        return (
            "You have a long-term memory on Hindsight. What fits a message is recalled by itself. Use"
            " hindsight_recall to look for more, hindsight_reflect for a reasoned answer over all of it, and"
            " hindsight_retain for a fact that later conversations should know."
        )

    # ending

    def shutdown(self, patience: float = DRAIN_SECONDS) -> None:
        """Refuse further calls, let a running write finish, then close the client and our own server."""
        super().shutdown(patience)
        if self._server is not None:
            self._server.stop(for_good=True)

    # a server of our own

    def ensure_server(self) -> None:
        """In local mode, make sure that a server runs: the process that ran it may have ended."""
        if self._server is not None and self._server.address() != self._url:
            self._wait_for_server(self._server)

    def _wait_for_server(self, server: LocalServer) -> None:
        deadline = self._clock.monotonic() + LOCAL_START_SECONDS
        while True:
            address = server.address()
            if address != self._url:
                self._url = address
                self._loop.run(self._aclose)
            try:
                self.ask(lambda api: api.version())
            except ProviderUnavailable as cause:
                if self._clock.monotonic() >= deadline:
                    problem = f"its local server did not start; its log is {server.log}: {server.log_tail()}"
                    raise ProviderUnavailable(NAME, problem=problem) from cause
            else:
                return
            self._clock.wait(self._loop.closing, LOOK_SECONDS)


class HindsightScope(HindsightMemory):
    """The memory of one scope. It has no client and no server of its own."""

    def __init__(self, memory: HindsightMemory, scope: str) -> None:
        self._memory = memory
        self._clock = memory.clock
        self._bank = f"{memory.settings.bank}-{scope_folder(scope)}"

    @property
    def closed(self) -> bool:
        return self._memory.closed

    @property
    def settings(self) -> HindsightSettings:
        return replace(self._memory.settings, bank=self._bank)

    def ask(self, call: Callable[[HindsightApi], Awaitable[T]], timeout: float | None = None) -> T:
        return self._memory.ask(lambda api: call(api.in_bank(self._bank)), timeout)

    def ensure_server(self) -> None:
        self._memory.ensure_server()

    def initialize(self, session_id: str, **kwargs: Any) -> None:
        """Nothing: the memory is open."""

    def shutdown(self, patience: float = DRAIN_SECONDS) -> None:
        """Nothing: the memory closes its client."""


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
