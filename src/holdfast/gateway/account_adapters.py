"""The adapters of the accounts that the settings name, with their stored configuration."""

from holdfast.core.setting_checks import account_parts
from holdfast.core.settings import Settings
from holdfast.gateway.contract import Adapter
from holdfast.gateway.platforms import make_adapter
from holdfast.wiring import chat_config_store, data_folder, environment


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
