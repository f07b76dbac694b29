"""The settings, as one frozen tree. A class receives only the section that it needs.

`wiring/settings_loader.py` reads the tree once, `settings_file.py` parses the file. An unknown key is an
error that names the key.
"""

import json
from collections.abc import Callable
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

from holdfast.core.mcp_settings import McpSettings
from holdfast.core.secret import Secret
from holdfast.core.server_url import server_url_problem
from holdfast.core.setting_checks import (
    account_parts,
    allow_rule,
    chat_account,
    file_after_rule,
    header_name,
    host_name,
    issuer_address,
    listening_address,
    network,
    origin,
    path_prefix,
    printable,
    provider_name,
    secret_text,
    split_list,
    store_url,
    zone_name,
)
from holdfast.core.terminal_settings import TerminalSettings

Provider = Literal[
    "", "openai", "anthropic", "openrouter", "ollama", "llamacpp", "gguf", "embedded", "scripted"
]
DAY_S = 86_400
SMALL, STANDARD, EVERY_TOOL = TOOL_PROFILES = ("small", "standard", "all")
"""The tool profiles that there always are."""


def _usable(url: str) -> str:
    if url and (problem := server_url_problem(url)):
        raise ValueError(problem)
    return url


def _thinking(text: str) -> str:
    if text not in ("", "off", "adaptive") and not (text.isascii() and text.isdecimal()):
        raise ValueError("must be empty, 'off', 'adaptive' or a number of tokens")
    return text


def _names(given: object) -> object:
    """Split a list of names that an environment variable holds as one text, with commas or as JSON."""
    return tuple(split_list(given)) if isinstance(given, str) else given


def _each(check: Callable[[str], str]) -> AfterValidator:
    return AfterValidator(lambda values: tuple(check(value) for value in values))


SecretText = Annotated[Secret, PlainValidator(secret_text)]
Address = Annotated[str, AfterValidator(_usable)]
Names = Annotated[tuple[str, ...], BeforeValidator(_names)]
Line = Annotated[str, AfterValidator(printable)]
Price = Annotated[float | None, Field(ge=0, allow_inf_nan=False)]


class Slice(BaseModel):
    """A section of the settings: frozen, with unknown keys refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class StoreSettings(Slice):
    """Where conversations are kept."""

    url: Annotated[str, AfterValidator(store_url)] = Field(
        default="",
        repr=False,  # it may hold a password
        description="sqlite:///PATH or postgresql://HOST/DATABASE; empty: in the data folder",
    )
    busy_timeout_s: float = Field(
        default=30.0,
        gt=0,
        le=DAY_S,
        description="how long a call waits for another process that holds the store",
    )
    connections: int = Field(
        default=10,
        ge=1,
        le=1000,
        description="how many connections to PostgreSQL a process has at most; made when needed",
    )

    @property
    def is_shared(self) -> bool:
        """Whether processes on other machines may use it too: it is on PostgreSQL."""
        return self.url.startswith(("postgresql://", "postgres://"))


class ExitSettings(Slice):
    """How the program ends."""

    watchdog_s: float = Field(
        default=30.0, gt=0, le=DAY_S, description="how long clean-up may take before the process is ended"
    )


class MemorySettings(Slice):
    """The memory providers, and their time limits."""

    providers: Annotated[Names, _each(provider_name)] = Field(
        default=("local",),
        description="names of installed providers or module:Class, with commas; empty: none",
    )
    plugins: Line = Field(
        default="", description="a folder with more providers; empty: memory_providers in the data folder"
    )
    drain_s: float = Field(
        default=5.0, ge=0, le=DAY_S, description="how long all providers together may take at the end"
    )
    recall_s: float = Field(
        default=2.0, ge=0, le=DAY_S, description="how long a turn waits for recalled memories"
    )
    recall_tokens: int = Field(
        default=0,
        ge=0,
        le=1_000_000,
        description="tokens of recalled memories in a turn, from all providers together;"
        " 0: an eighth of the model's window, 8000 at most",
    )
    start_s: float = Field(
        default=5.0,
        gt=0,
        le=DAY_S,
        description="how long the start waits for providers; a late one is added when it answers",
    )
    review_every: int = Field(
        default=0, ge=0, description="completed turns between two reviews of a conversation; 0: no reviews"
    )


def _from_json(value: Any) -> Any:  # noqa: ANN401 - whatever a setting was given
    """Parse a list that an environment variable holds as JSON."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value) if value.strip() else ()
    except (ValueError, RecursionError) as cause:
        raise ValueError(f"it must be a list as JSON: {cause}") from None


def _whole(path: str) -> str:
    if not path.startswith(("/", "~/")) or "\0" in path:
        raise ValueError("must be a whole path, from / or ~/ on")
    return path


FolderName = Annotated[str, AfterValidator(_whole)]


class McpServerSettings(Slice):
    """One MCP server: a command to start, or the address of one that runs."""

    name: str = Field(pattern=r"^[A-Za-z0-9]+(?:[_-][A-Za-z0-9]+)*$", max_length=24)
    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = Field(default_factory=dict, repr=False)  # it may hold keys
    url: str = Field(default="", repr=False)
    headers: dict[str, str] = Field(default_factory=dict, repr=False)
    trusted: bool = Field(default=False, description="whether its tools run without asking")
    seconds: float = Field(default=120.0, gt=0, le=DAY_S, description="how long a call may take")

    @model_validator(mode="after")
    def _one_way_to_it(self) -> Self:
        if bool(self.command) == bool(self.url):
            raise ValueError("an MCP server has either a command or a url")
        return self


class ToolSettings(Slice):
    """What the agent may do, and when it must ask."""

    workspace: Line = Field(
        default="", description="the folder in which tools work; empty: where the program was started"
    )
    approval: Literal["ask", "never-ask", "always-refuse"] = Field(
        default="ask", description="what to do with requests that need a person's approval"
    )
    allow: Annotated[tuple[str, ...], BeforeValidator(_from_json), _each(allow_rule)] = Field(
        default=(), description="what needs no approval, as KIND:PATTERN"
    )
    approval_timeout_s: float = Field(
        default=600.0, gt=0, le=DAY_S, description="how long a question stays open; no answer means no"
    )
    result_characters: int = Field(
        default=30_000, ge=1000, le=1_000_000, description="how much of a result the model reads at once"
    )
    search: Literal["", "brave", "tavily", "searxng"] = Field(
        default="",
        description="which service searches the web; empty: the one that has a key or an address",
    )
    search_key: SecretText = Field(
        default=Secret(""), description="the key for the search service named by tools.search"
    )
    search_url: Address = Field(default="", repr=False, description="the address of a SearXNG server")
    undo_mb: int = Field(
        default=500,
        ge=0,
        le=1_000_000,
        description="megabytes of file contents kept to undo changes; the oldest are dropped; 0: none",
    )
    mcp_servers: Annotated[tuple[McpServerSettings, ...], BeforeValidator(_from_json)] = Field(
        default=(), repr=False, description="MCP servers whose tools are offered"
    )
    profile: Line = Field(
        default="",
        description="the tools a model is told of: small, standard, all or one of tools.profiles;"
        " empty: by its size and window",
    )
    profiles: Annotated[
        dict[str, tuple[str, ...]], BeforeValidator(lambda given: _from_json(given) or {})
    ] = Field(
        default_factory=dict, description="profiles of your own: a name, and the names or patterns of tools"
    )
    skills_folder: Line = Field(default="", description="where skills are; empty: in the data folder")
    sandbox: Literal["auto", "bubblewrap", "docker", "podman", "off"] = Field(
        default="auto",
        description="what commands run in; auto: bubblewrap where it works, else nothing",
    )
    sandbox_network: bool = Field(default=True, description="whether commands in a sandbox have the network")
    sandbox_image: Line = Field(
        default="docker.io/library/debian:stable-slim",
        min_length=1,
        pattern=r"^[A-Za-z0-9]",
        description="the image for docker and podman",
    )
    sandbox_readable: Annotated[tuple[FolderName, ...], BeforeValidator(_from_json)] = Field(
        default=(), description="more files and folders that a sandbox shows, read-only"
    )
    sandbox_writable: Annotated[tuple[FolderName, ...], BeforeValidator(_from_json)] = Field(
        default=(), description="more files and folders that commands in a sandbox may write"
    )
    sandbox_memory_mb: int = Field(
        default=8192, ge=0, description="megabytes of memory for each process in a sandbox; 0: no limit"
    )
    sandbox_processes: int = Field(
        default=1024, ge=0, description="processes of one command in a sandbox; 0: no limit"
    )
    sandbox_cpu_s: int = Field(
        default=14_400, ge=0, description="seconds of computing for each process in a sandbox; 0: no limit"
    )

    @model_validator(mode="after")
    def _known_profile(self) -> Self:
        if taken := self.profiles.keys() & set(TOOL_PROFILES):
            raise ValueError(f"tools.profiles: {', '.join(sorted(taken))} is a built-in profile")
        if self.profile and self.profile not in (known := (*TOOL_PROFILES, *self.profiles)):
            raise ValueError(f"tools.profile must be one of {', '.join(known)}, not {self.profile!r}")
        return self


class ModelSettings(Slice):
    """The language model. With everything empty, Holdfast looks for a key or a local server."""

    provider: Provider = Field(
        default="", description="who offers the model; empty: found by the keys and servers"
    )
    name: Line = Field(default="", description="the model's name; for gguf the path of its file")
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
        default=10.0, gt=0, le=DAY_S, description="how long connecting to the server may take"
    )
    stall_timeout_s: float = Field(
        default=300.0, gt=0, le=DAY_S, description="how long the server may be silent within an answer"
    )
    attempts: int = Field(default=6, ge=1, le=100, description="requests in all when the server fails")
    retry_timeout_s: float = Field(
        default=300.0, gt=0, le=DAY_S, description="how long a failing server is tried again"
    )


class WebSettings(Slice):
    """The web page and the HTTP API."""

    host: Annotated[str, AfterValidator(listening_address)] = Field(
        default="127.0.0.1", description="the address to listen on"
    )
    port: int = Field(default=8484, ge=0, le=65_535, description="the port to listen on; 0: a free one")
    authentication: Literal["", "token", "none"] = Field(
        default="",
        description="empty: by token, on loopback; token: on any address; none: nobody is asked, on loopback",
    )
    token: SecretText = Field(
        default=Secret(""),
        description="the token of clients; empty: created at the first start, kept in the data folder",
    )
    allowed_hosts: Annotated[Names, _each(host_name)] = Field(
        default=(), description="more names under which the server may be called, with commas"
    )
    allowed_origins: Annotated[Names, _each(origin)] = Field(
        default=(), description="origins of other pages that may call the API, with commas"
    )
    trusted_proxies: Annotated[Names, _each(network)] = Field(
        default=(),
        description="addresses and networks of proxies whose headers are believed, with commas",
    )
    root_path: Annotated[str, AfterValidator(path_prefix)] = Field(
        default="", description="what a proxy puts before every path, such as /holdfast"
    )
    requests_per_s: float = Field(
        default=200.0,
        gt=0,
        le=1_000_000,
        description="requests of one client in the long run; ten seconds' worth at once",
    )
    streams: int = Field(
        default=4000,
        ge=1,
        le=1_000_000,
        description="event streams open at once; fewer where the limit of open files is low",
    )
    client_timeout_s: float = Field(
        default=20.0,
        gt=0,
        le=DAY_S,
        description="how long a client may take to send its request, or to read its answer",
    )
    user_header: Annotated[str, AfterValidator(header_name)] = Field(
        default="",
        description="the header in which a trusted proxy names the account; empty: no proxy signs in",
    )
    user_models: Names = Field(
        default=(), description="models that an account may choose, with commas; empty: each that is listed"
    )
    oidc_issuer: Annotated[str, AfterValidator(issuer_address)] = Field(
        default="", description="the issuer of sign-ins by OpenID Connect; empty: none"
    )
    oidc_client_id: str = Field(default="", description="this server's name at the issuer")
    oidc_client_secret: SecretText = Field(
        default=Secret(""), description="this server's secret at the issuer; empty: it has none"
    )
    oidc_name_claim: str = Field(
        default="preferred_username", min_length=1, description="the claim with a person's name"
    )
    create_users: bool = Field(
        default=False,
        description="whether people whom the proxy or the issuer names get an account by themselves",
    )

    @model_validator(mode="after")
    def _whole_sign_ins(self) -> Self:
        if self.user_header and not self.trusted_proxies:
            raise ValueError("web.user_header counts only from a proxy: name it in web.trusted_proxies")
        if self.user_header and self.authentication == "none":
            raise ValueError("web.user_header and web.authentication = none exclude each other")
        if self.oidc_issuer and not self.oidc_client_id:
            raise ValueError("web.oidc_issuer needs web.oidc_client_id, this server's name there")
        return self


class GatewaySettings(Slice):
    """Chat platforms."""

    accounts: Annotated[Names, _each(chat_account)] = Field(
        default=(),
        description="accounts that `holdfast gateway` serves, as PLATFORM or NAME=PLATFORM, with commas",
    )
    busy: Literal["queue", "steer", "interrupt"] = Field(
        default="queue",
        description="what a message does while a turn runs: wait, join the turn, or stop it",
    )
    groups: Literal["mention", "always"] = Field(
        default="mention", description="in groups, answer messages that mention the bot, or all"
    )
    group_context: int = Field(
        default=10, ge=0, le=100, description="earlier messages of a group that a mention brings along"
    )
    age_limit_h: float = Field(
        default=24.0, gt=0, le=24 * 365, description="hours after which a message is too old to answer"
    )
    debounce_s: float = Field(
        default=0.6, ge=0, le=60, description="messages of one person within this time become one"
    )
    preview: bool = Field(default=True, description="show an answer while it is written")
    file_after: Annotated[Names, _each(file_after_rule)] = Field(
        default=("4",),
        description="more messages than this become a file; 0: never; ACCOUNT=NUMBER for one account",
    )
    reset_after_h: float = Field(
        default=0.0, ge=0, le=24 * 365, description="hours of silence that begin a new conversation; 0: never"
    )
    user_daily_tokens: int = Field(default=0, ge=0, description="tokens of a user in 24 hours; 0: no limit")
    user_daily_messages: int = Field(default=0, ge=0, description="the same for messages and /retry")
    guest_daily_tokens: int = Field(default=0, ge=0, description="tokens of a guest in 24 hours; 0: no limit")
    guest_daily_messages: int = Field(default=0, ge=0, description="the same for messages")
    user_models: Names = Field(
        default=(), description="models that a user may choose by /model, with commas; empty: each listed"
    )
    transcription_url: Address = Field(
        default="",
        repr=False,  # it may hold a password
        description="an OpenAI-compatible server that turns voice notes into text; empty: they stay files",
    )
    transcription_model: Line = Field(default="whisper-1", description="the model that it uses")
    transcription_key: SecretText = Field(default=Secret(""), description="the key for that server")

    def messages_before_file(self, account: str) -> int:
        """How many messages an answer may take on this account before it becomes a file; 0: any number."""
        found = dict(each.rpartition("=")[::2] for each in self.file_after)
        return int(found.get(account, found.get("", 0)))

    @property
    def platforms(self) -> dict[str, str]:
        """The platform of each account, by the account's name."""
        return dict(map(account_parts, self.accounts))


class LimitsSettings(Slice):
    """Limits of one turn. A turn that reaches one ends with an explanation."""

    max_steps: int = Field(default=50, ge=1, description="requests to the model in one turn")
    max_seconds: float = Field(default=1800.0, gt=0, le=DAY_S, description="how long a turn may take")
    max_cost: Price = Field(default=None, description="dollars that a turn may cost; needs known prices")


class HostSettings(Slice):
    """How conversations are run."""

    after_crash: Literal["", "resume", "close", "ask"] = Field(
        default="",
        description="what to do with a turn that a crash ended; empty: resume in a server, ask elsewhere",
    )
    time_zone: Annotated[str, AfterValidator(zone_name)] = Field(
        default="",
        description="the time zone of schedules that name none, such as Europe/Berlin; empty: the machine's",
    )
    agents: int = Field(
        default=64, ge=1, le=100_000, description="how many agents stay in memory between their turns"
    )
    otel: bool = Field(
        default=False, description="whether turns are exported as OpenTelemetry spans (extra otel)"
    )
    otel_content: bool = Field(
        default=False, description="whether these spans hold what was said and what tools returned"
    )
    titles: bool = Field(
        default=True, description="whether the model names a conversation after its first turn"
    )
    api_days: float = Field(
        default=30.0,
        ge=0,
        le=36_500,
        description="days until unused conversations of /v1 that have no name are deleted; 0: never",
    )
    store_threads: int = Field(
        default=16, ge=1, le=1000, description="how many threads wait for the store at most"
    )
    tool_threads: int = Field(
        default=32, ge=1, le=1000, description="how many blocking tools run at once at most"
    )


class Settings(Slice):
    """Everything that can be set."""

    store: StoreSettings = StoreSettings()
    exit: ExitSettings = ExitSettings()
    memory: MemorySettings = MemorySettings()
    tools: ToolSettings = Field(default_factory=ToolSettings)
    model: ModelSettings = ModelSettings()
    limits: LimitsSettings = LimitsSettings()
    web: WebSettings = WebSettings()
    gateway: GatewaySettings = GatewaySettings()
    host: HostSettings = HostSettings()
    terminal: TerminalSettings = TerminalSettings()
    mcp: McpSettings = McpSettings()
