"""`/api/settings`: what is set, where it comes from, and changes of it. Keys go in and never come out."""

import logging
from pathlib import Path
from typing import Annotated, Literal

from fastapi import APIRouter
from pydantic import BaseModel, Field

from holdfast.core.errors import HoldfastError
from holdfast.core.settings import Settings
from holdfast.models.embedded import embedded_state
from holdfast.models.install_embedded import install_embedded, install_runtime
from holdfast.process import off_loop
from holdfast.web.bodies import StrictBody
from holdfast.web.contract import WebDep
from holdfast.web.problems import ProblemRaised, error_responses
from holdfast.web.views import View
from holdfast.wiring import data_folder
from holdfast.wiring.settings_view import SettingEntry, described_settings
from holdfast.wiring.settings_writer import change_settings
from holdfast.wiring.workspace import with_workspace, workspace_of

logger = logging.getLogger(__name__)
router = APIRouter(prefix="/api/settings", tags=["settings"], responses=error_responses(422))

SECTIONS = frozenset({"model", "memory", "tools", "limits", "host"})
"""What can be changed over HTTP. The store and who may call this server are changed on its machine."""
AT_ONCE = "model"
"""The section whose changes count at once; others count from the next start on."""


class SettingView(View):
    key: str
    value: str = Field(description="empty for a key")
    kind: Literal["text", "number", "yes or no", "choice", "list", "key", "other"]
    choices: list[str] = Field(description="what it can be; of a list, what is known here")
    items: list[str] = Field(description="of a list, what is in it")
    description: str
    source: Literal["default", "file", "environment"] = Field(
        description="what the environment sets can't be changed here"
    )
    variable: str = Field(description="the environment variable that sets it")
    is_set: bool
    changeable: bool = False


class SettingsView(BaseModel):
    file: str
    items: list[SettingView]
    restart: list[str] = Field(default=[], description="what was changed and counts from the next start on")
    model_problem: str = Field(default="", description="why the model of the settings could not be opened")


class SettingsBody(StrictBody):
    changes: dict[Annotated[str, Field(max_length=100)], Annotated[str, Field(max_length=100_000)]] = Field(
        description="new values by key, as text; lists with commas or as JSON"
    )


@router.get("")
async def read_settings() -> SettingsView:
    """Every setting: its value, what it means, and where it comes from."""
    return _settings()


@router.patch("")
async def write_settings(web: WebDep, body: SettingsBody) -> SettingsView:
    """Write settings to the settings file, all or none. A changed model is used from the next turn on."""
    for entry in _settings().items:
        if entry.key in body.changes and not entry.changeable:
            raise ProblemRaised(422, "SettingFixed", _why_fixed(entry), "Change it there, then start again.")
    if folder := body.changes.get("tools.workspace"):
        # The next start would refuse it, and then no page is there to set another one.
        workspace_of(with_workspace(Settings(), folder))
    change_settings(body.changes)
    restart = [key for key in body.changes if not key.startswith(f"{AT_ONCE}.")]
    problem = ""
    if len(restart) < len(body.changes):
        try:
            await web.host.reload_model()
        except HoldfastError as cause:
            problem = str(cause)
        web.on_model("")
    return _settings().model_copy(update={"restart": restart, "model_problem": problem})


@router.post("/embedded-model", status_code=204, responses=error_responses(503))
async def fetch_embedded_model(web: WebDep) -> None:
    """Fetch what the embedded model needs and is not here: its weights (98 MB), its runtime (34 MB)."""
    await off_loop(web.fetching, _fetch_embedded, data_folder())


def _fetch_embedded(folder: Path) -> None:
    install_runtime(logger.info)
    if embedded_state(folder).weights is None:
        install_embedded(folder, logger.info)


def _settings() -> SettingsView:
    # Two small files are read here; nothing else waits for them.
    file, entries = described_settings()
    return SettingsView(file=str(file), items=[_view(each) for each in entries])


def _view(entry: SettingEntry) -> SettingView:
    view = SettingView.of(entry)
    section = entry.key.partition(".")[0]
    view.changeable = section in SECTIONS and entry.source != "environment" and entry.kind != "other"
    return view


def _why_fixed(entry: SettingView) -> str:
    if entry.source == "environment":
        return f"{entry.key} is set by the environment variable {entry.variable}. Nothing was changed."
    return f"{entry.key} is changed in the settings file on the server's machine. Nothing was changed."
