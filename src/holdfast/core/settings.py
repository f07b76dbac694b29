"""The settings, as one frozen tree. `wiring/basics.py` parses it once; a class receives only its slice.

Unknown keys fail with the key's name. `settings_file.py` reads the tree from a file.
"""

import json
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    model_validator,
)

from holdfast.core.address import address_problem
from holdfast.core.secret import Secret

Provider = Literal[
    "", "openai", "anthropic", "openrouter", "ollama", "llamacpp", "gguf", "embedded", "scripted"
]
LONGEST_S = 86_400


def _secret(value: object) -> Secret:
    if isinstance(value, Secret):
        return value
    if not isinstance(value, str):
        raise ValueError("must be a text")  # noqa: TRY004 - pydantic reports a ValueError
    # Whitespace around a key comes from copying it; no key has any.
    return Secret(value.strip())


def _usable(url: str) -> str:
    if url and (problem := address_problem(url)):
        raise ValueError(problem)
    return url


def _thinking(text: str) -> str:
    if text not in ("", "off", "adaptive") and not (text.isascii() and text.isdecimal()):
        raise ValueError("must be empty, 'off', 'adaptive' or a number of tokens")
    return text


def _names(given: object) -> object:
    """A variable holds the names in one text, with commas."""
    if not isinstance(given, str):
        return given
    return tuple(name for each in given.split(",") if (name := each.strip()))


SecretText = Annotated[Secret, PlainValidator(_secret)]
Address = Annotated[str, AfterValidator(_usable)]
Names = Annotated[tuple[str, ...], BeforeValidator(_names)]
Price = Annotated[float | None, Field(ge=0, allow_inf_nan=False)]


class Slice(BaseModel):
    """A part of the settings: frozen, and nothing unknown in it."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class StoreSettings(Slice):
    """Where conversations are kept."""

    url: str = Field(
        default="",
        repr=False,  # it may hold a password
        description="sqlite:///PATH or postgresql://HOST/DATABASE; empty: in the data folder",
    )
    patience_s: float = Field(
        default=30.0,
        gt=0,
        le=86_400,
        description="how long a call waits for another process that holds the store",
    )


class ExitSettings(Slice):
    """How the program ends."""

    watchdog_s: float = Field(
        default=30.0, gt=0, le=86_400, description="how long clean-up may take before the process is ended"
    )


class MemorySettings(Slice):
    """What is remembered in essence, and by whom."""

    providers: Names = Field(
        default=("local",),
        description="names of installed providers or module:Class, with commas; empty: none",
    )
    plugins: str = Field(
        default="", description="a folder with more providers; empty: memory_providers in the data folder"
    )
    drain_s: float = Field(
        default=5.0, ge=0, le=86_400, description="how long all providers together may take at the end"
    )
    recall_s: float = Field(
        default=2.0, ge=0, le=86_400, description="how long a turn waits for what is remembered"
    )

    review_every: int = Field(
        default=0, ge=0, description="completed turns from one look back for notes to the next; 0: never"
    )


def _from_json(value: Any) -> Any:  # noqa: ANN401 - whatever a setting was given
    """A list in an environment variable is written as JSON."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value) if value.strip() else ()
    except ValueError as cause:
        raise ValueError(f"it must be a list as JSON: {cause}") from None


class McpServerSettings(Slice):
    """One MCP server: a command to start, or the address of one that runs."""

    name: str = Field(pattern=r"^[A-Za-z0-9]+(?:[_-][A-Za-z0-9]+)*$", max_length=24)
    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = Field(default_factory=dict, repr=False)  # it may hold keys
    url: str = Field(default="", repr=False)
    headers: dict[str, str] = Field(default_factory=dict, repr=False)
    trusted: bool = Field(default=False, description="whether its tools run without asking")
    seconds: float = Field(default=120.0, gt=0, le=86_400, description="how long a call may take")

    @model_validator(mode="after")
    def _one_way_to_it(self) -> Self:
        if bool(self.command) == bool(self.url):
            raise ValueError("an MCP server has either a command or a url")
        return self


class ToolSettings(Slice):
    """What the agent may do, and what it must ask for."""

    workspace: str = Field(
        default="", description="the folder in which tools work; empty: where the program was started"
    )
    approval: Literal["ask", "never-ask", "always-refuse"] = Field(
        default="ask", description="what becomes of what needs a person's approval"
    )
    allow: Annotated[tuple[str, ...], BeforeValidator(_from_json)] = Field(
        default=(), description="what needs no approval, as KIND:PATTERN"
    )
    approval_timeout_s: float = Field(
        default=600.0, gt=0, le=86_400, description="how long an ask stays open; unanswered means no"
    )
    result_characters: int = Field(
        default=30_000, ge=1000, le=1_000_000, description="how much of a result the model reads at once"
    )
    mcp_servers: Annotated[tuple[McpServerSettings, ...], BeforeValidator(_from_json)] = Field(
        default=(), repr=False, description="MCP servers whose tools are offered"
    )
    skills_folder: str = Field(default="", description="where skills are; empty: in the data folder")


class ModelSettings(Slice):
    """Which language model answers. Everything empty: whatever is there is used."""

    provider: Provider = Field(default="", description="who offers the model; empty: found by what is there")
    name: str = Field(default="", description="the model's name; for gguf the path of its file")
    base_url: Address = Field(
        default="",
        repr=False,  # it may hold a password
        description="the server's address; empty: the provider's own",
    )
    api_key: SecretText = Field(default=Secret(""), description="the key for the server")
    context_window: int | None = Field(
        default=None, ge=512, description="tokens of input and output together; empty: as the server says"
    )
    price_input: Price = Field(default=None, description="dollars for a million tokens read")
    price_output: Price = Field(default=None, description="dollars for a million tokens written")
    price_cached: Price = Field(default=None, description="dollars for a million tokens read from a cache")
    thinking: Annotated[str, AfterValidator(_thinking)] = Field(
        default="", description="with Anthropic: off, adaptive or a number of tokens"
    )
    connect_timeout_s: float = Field(
        default=10.0, gt=0, le=LONGEST_S, description="how long connecting to the server may take"
    )
    stall_timeout_s: float = Field(
        default=300.0, gt=0, le=LONGEST_S, description="how long the server may be silent within an answer"
    )
    attempts: int = Field(default=6, ge=1, le=100, description="requests in all when the server fails")
    patience_s: float = Field(
        default=300.0, gt=0, le=LONGEST_S, description="how long a failing server is tried again"
    )


class WebSettings(Slice):
    """The web page and the HTTP API."""

    host: str = Field(default="127.0.0.1", description="the address to listen on")
    port: int = Field(default=8484, ge=0, le=65_535, description="the port to listen on; 0: a free one")
    authentication: Literal["", "token", "none"] = Field(
        default="",
        description="empty: by token, on loopback; token: on any address; none: nobody is asked, on loopback",
    )
    token: SecretText = Field(
        default=Secret(""),
        description="what a client must show; empty: made at first start, kept in the data folder",
    )
    allowed_hosts: Names = Field(
        default=(), description="more names under which the server may be called, with commas"
    )
    allowed_origins: Names = Field(
        default=(), description="origins of other pages that may call the API, with commas"
    )
    requests_per_s: float = Field(
        default=200.0,
        gt=0,
        le=1_000_000,
        description="requests of one client in the long run; ten seconds' worth at once",
    )
    streams: int = Field(default=4000, ge=1, le=1_000_000, description="event streams open at once")
    patience_s: float = Field(
        default=20.0,
        gt=0,
        le=LONGEST_S,
        description="how long a client may take to say what it wants, or to take what it gets",
    )


class LimitsSettings(Slice):
    """Where a turn ends with an explanation instead of going on."""

    max_steps: int = Field(default=50, ge=1, description="requests to the model in one turn")
    max_seconds: float = Field(default=1800.0, gt=0, le=LONGEST_S, description="how long a turn may take")
    max_cost: Price = Field(default=None, description="dollars that a turn may cost; needs known prices")


class Settings(Slice):
    """Everything that can be set."""

    store: StoreSettings = StoreSettings()
    exit: ExitSettings = ExitSettings()
    memory: MemorySettings = MemorySettings()
    tools: ToolSettings = ToolSettings()
    model: ModelSettings = ModelSettings()
    limits: LimitsSettings = LimitsSettings()
    web: WebSettings = WebSettings()
