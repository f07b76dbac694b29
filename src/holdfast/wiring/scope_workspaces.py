"""The folders in which tools work for people other than the owner: one for each scope, never shared."""

import hashlib
from pathlib import Path

from holdfast.sessions.contract import scope_folder
from holdfast.wiring.folders import scopes_folder

WORKSPACE = "workspace"
ASSISTANT = "assistant"
OWNER_ONLY = 0o700


def scope_workspace(scope: str, belongs_to: str = ASSISTANT) -> Path:
    """The workspace of a scope, made if it is not there. `belongs_to` keeps programs apart."""
    folder = scopes_folder() / belongs_to / scope_folder(scope) / WORKSPACE
    folder.mkdir(mode=OWNER_ONLY, parents=True, exist_ok=True)
    return folder


def program_name(store: str) -> str:
    """The name under which a program keeps its workspaces: that of its store."""
    return f"program-{hashlib.sha256(store.encode('utf-8', 'surrogatepass')).hexdigest()[:24]}"
