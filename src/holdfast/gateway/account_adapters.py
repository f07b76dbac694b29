"""What the settings say for a gateway: the adapters of its accounts, and where the agent works for whom."""

from pathlib import Path

from holdfast.core.setting_checks import account_parts
from holdfast.core.settings import Settings
from holdfast.gateway.contract import Adapter
from holdfast.gateway.platforms import make_adapter
from holdfast.sessions.contract import OWNER
from holdfast.wiring import chat_config_store, data_folder, environment
from holdfast.wiring.scope_workspaces import scope_workspace
from holdfast.wiring.workspace import workspace_of


def config_name(account: str) -> str:
    """The section under which an account's configuration is stored."""
    return f"chat-{account_parts(account)[0]}"


def account_adapters(settings: Settings) -> dict[str, Adapter]:
    """An adapter for each account, by its name; `InvalidInput` says what is missing."""
    store = chat_config_store()
    return {
        account_parts(account)[0]: make_adapter(
            account,
            store.read(config_name(account)),
            environment(),
            data_folder() / "chat" / account_parts(account)[0],
        )
        for account in settings.gateway.accounts
    }


def scope_folder_of(settings: Settings, scope: str) -> Path:
    """The folder in which the agent works for a scope."""
    return workspace_of(settings).folder if scope == OWNER else scope_workspace(scope)
