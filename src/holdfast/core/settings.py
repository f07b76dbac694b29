"""The settings, as one frozen tree. `wiring.py` parses it once; a class receives only its slice.

Unknown keys fail with the key's name.
"""

import json
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator


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

    providers: tuple[str, ...] = Field(
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

    @field_validator("providers", mode="before")
    @classmethod
    def _split(cls, given: object) -> object:
        """A variable holds the names in one text."""
        if not isinstance(given, str):
            return given
        return tuple(name for each in given.split(",") if (name := each.strip()))


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


class Settings(Slice):
    """Everything that can be set."""

    store: StoreSettings = StoreSettings()
    exit: ExitSettings = ExitSettings()
    memory: MemorySettings = MemorySettings()
    tools: ToolSettings = ToolSettings()
