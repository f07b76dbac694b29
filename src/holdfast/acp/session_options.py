"""What a person can set in an editor: the mode, which is an approval policy, and the model."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress

from acp import schema

from holdfast.agent.scope_policy import ScopePolicy
from holdfast.core.errors import HoldfastError, InvalidInput
from holdfast.host import SessionHost

MODEL = "model"
LIST_SECONDS = 3.0
"""How long the list of models may take; without it, the present one is offered."""
MOST_MODELS = 200

READING_TOOLS = frozenset(
    {
        *(
            "read_file",
            "list_folder",
            "search_files",
            "find_files",
            "read_output",
            "fetch_page",
            "search_web",
        ),
        *("search_sessions", "read_session", "read_skill", "list_schedules", "memory_search"),
        *("todo", "ask_user", "find_tool"),
    }
)
ASK, FENCED, READ_ONLY, NEVER_ASK = "ask", "fenced", "read-only", "never-ask"
MODES: Mapping[str, tuple[str, str, ScopePolicy]] = {
    ASK: ("Ask", "What needs approval is asked about.", ScopePolicy(approval="ask")),
    FENCED: (
        "Fenced",
        "Nothing is asked: what needs approval and no rule allows is refused.",
        ScopePolicy(approval="always-refuse"),
    ),
    READ_ONLY: (
        "Read only",
        "The agent looks and searches; it has no tools that change anything.",
        ScopePolicy(tools=READING_TOOLS, approval="always-refuse"),
    ),
    NEVER_ASK: (
        "Never ask",
        "Everything is allowed, as the settings say.",
        ScopePolicy(approval="never-ask"),
    ),
}
OFFERED: Mapping[str, tuple[str, ...]] = {
    "ask": (ASK, FENCED, READ_ONLY),
    "never-ask": (NEVER_ASK, ASK, FENCED, READ_ONLY),
    "always-refuse": (FENCED, READ_ONLY),
}
"""The modes by the setting `tools.approval`: the first is where a session begins. None allows more."""


def mode_state(approval: str, current: str) -> schema.SessionModeState:
    """The modes that there are, and the present one."""
    modes = [(name, *MODES[name]) for name in OFFERED[approval]]
    return schema.SessionModeState(
        current_mode_id=current,
        available_modes=[
            schema.SessionMode(id=name, name=title, description=about) for name, title, about, _ in modes
        ],
    )


def checked_mode(approval: str, wanted: str) -> str:
    """The mode; raises `InvalidInput`, which names those that there are."""
    if wanted not in OFFERED[approval]:
        raise InvalidInput(f"there is no mode {wanted!r} here; there are {', '.join(OFFERED[approval])}")
    return wanted


async def model_options(
    host: SessionHost,
) -> list[schema.SessionConfigOptionSelect | schema.SessionConfigOptionBoolean]:
    """The choice of a model."""
    names: list[str] = []
    with suppress(TimeoutError, HoldfastError):
        async with asyncio.timeout(LIST_SECONDS):
            names = (await host.models()).names[:MOST_MODELS]
    current = host.model.name if host.model else ""
    offered = list(dict.fromkeys(name for name in (current, *names) if name))
    if not offered:
        return []
    return [
        schema.SessionConfigOptionSelect(
            id=MODEL,
            name="Model",
            category="model",
            type="select",
            current_value=current or offered[0],
            options=[schema.SessionConfigSelectOption(value=name, name=name) for name in offered],
        )
    ]
