"""Tool profiles: which tools a model is told of, and in how many words. Read `tool_set.py` next.

Every tool that an agent has can be called. A profile says which ones are described in each request; the
others are found by `find_tool`. A model with few parameters or a small window gets few tools, one sentence
for each and a short system text: a long request takes it minutes, and it loses sight of the question.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from holdfast.core.errors import InvalidInput
from holdfast.core.settings import EVERY_TOOL, SMALL, STANDARD, TOOL_PROFILES
from holdfast.models.contract import ModelTraits, ToolSchema

SMALL_TOOLS = ("run_command", "read_file", "write_file", "edit_file")
SELDOM_USED = frozenset(
    {
        *("start_process", "list_processes", "read_process", "stop_process"),
        *("add_schedule", "list_schedules", "remove_schedule"),
        *("search_sessions", "read_session", "save_skill", "memory_correct", "memory_forget", "delegate"),
    }
)
"""Built-in tools that `standard` leaves to `find_tool`; whatever else an agent has, it shows."""

SMALL_PARAMETERS = 4_000_000_000
SMALL_WINDOW = 8_192
STANDARD_PARAMETERS = 40_000_000_000
STANDARD_WINDOW = 32_000

BRIEF_KEYS = ("type", "enum", "items", "description", "minimum", "maximum")


@dataclass(frozen=True, slots=True)
class ToolProfile:
    """One profile. `shown` are names or patterns of tools, None means all but those of `hidden`."""

    name: str
    shown: tuple[str, ...] | None = None
    hidden: frozenset[str] = frozenset()
    brief: bool = False
    """Whether the system text is short, and a tool is described by one sentence and what it needs."""
    reason: str = ""
    """Why this one is used, for a person to read."""

    def __str__(self) -> str:
        return f"{self.name} ({self.reason})" if self.reason else self.name

    def shows(self, tool: str) -> bool:
        if self.shown is not None:
            return any(fnmatchcase(tool, pattern) for pattern in self.shown)
        return tool not in self.hidden

    def described(self, schema: ToolSchema) -> ToolSchema:
        """A tool as this profile describes it."""
        return brief_schema(schema) if self.brief else schema


@dataclass(frozen=True, slots=True)
class ToolProfiles:
    """The profiles that an agent can have. `chosen` is that of the settings; empty: by the model."""

    chosen: str = EVERY_TOOL
    own: Mapping[str, Sequence[str]] = field(default_factory=dict)
    always: tuple[str, ...] = ()
    """Tools that every profile shows: those that a program gave its agent itself."""

    @property
    def names(self) -> tuple[str, ...]:
        return (*TOOL_PROFILES, *self.own)

    def checked(self, name: str) -> str:
        """The name of a profile; raises `InvalidInput`, which names those there are."""
        if name and name not in self.names:
            raise InvalidInput(f"there is no tool profile {name!r}; there are {', '.join(self.names)}")
        return name

    def of(self, traits: ModelTraits, wanted: str = "") -> ToolProfile:
        """The profile for a model. `wanted` is the conversation's own choice, if it has made one.

        A choice that is no profile any more, since the settings were changed, counts as none.
        """
        if wanted in self.names:
            return self._named(wanted, traits, "chosen for this conversation")
        if self.chosen in self.names:
            return self._named(self.chosen, traits, "as the settings say")
        name, reason = fitting(traits)
        return self._named(name, traits, reason)

    def _named(self, name: str, traits: ModelTraits, reason: str) -> ToolProfile:
        if name in self.own:
            brief = fitting(traits)[0] == SMALL
            return ToolProfile(name, (*self.own[name], *self.always), brief=brief, reason=reason)
        if name == SMALL:
            return ToolProfile(name, (*SMALL_TOOLS, *self.always), brief=True, reason=reason)
        hidden = SELDOM_USED.difference(self.always) if name == STANDARD else frozenset[str]()
        return ToolProfile(name, hidden=hidden, reason=reason)


def fitting(traits: ModelTraits) -> tuple[str, str]:
    """The profile that fits a model by its size and its window, and why."""
    size, window = traits.parameters, traits.context_window
    if size is not None and size <= SMALL_PARAMETERS:
        return SMALL, f"the model has {shown_size(size)} parameters"
    if window <= SMALL_WINDOW:
        return SMALL, f"its window has {window:,} tokens"
    if size is not None and size <= STANDARD_PARAMETERS:
        return STANDARD, f"the model has {shown_size(size)} parameters"
    if window <= STANDARD_WINDOW:
        return STANDARD, f"its window has {window:,} tokens"
    return EVERY_TOOL, "the model is large enough"


def shown_size(parameters: int) -> str:
    billions = parameters / 1_000_000_000
    return f"{billions:g}B" if billions >= 1 else f"{parameters / 1_000_000:g}M"


def brief_schema(schema: ToolSchema) -> ToolSchema:
    """A tool in few words: the first sentence about it, and the arguments that it can't do without."""
    parameters = schema.parameters
    properties = parameters.get("properties")
    required = parameters.get("required")
    described = _first_sentence(schema.description)
    if not isinstance(properties, Mapping) or not required or "$defs" in parameters:
        return ToolSchema(schema.name, described, parameters)
    kept = {name: _brief_property(properties[name]) for name in required if name in properties}
    brief = {"type": "object", "properties": kept, "required": list(kept), "additionalProperties": False}
    return ToolSchema(schema.name, described, brief)


def _brief_property(value: Any) -> Any:  # noqa: ANN401 - JSON of any shape
    if not isinstance(value, Mapping) or "type" not in value:
        return value
    return {key: value[key] for key in BRIEF_KEYS if key in value}


def _first_sentence(text: str) -> str:
    line = " ".join(text.split())
    end = line.find(". ")
    return line if end < 0 else line[: end + 1]
