"""What the settings say for a gateway: the adapters of its accounts, and where the agent works for whom."""

import asyncio
from concurrent.futures import Future
from pathlib import Path

from holdfast.core.setting_checks import account_parts
from holdfast.core.settings import Settings
from holdfast.gateway.contract import Adapter
from holdfast.gateway.platforms import is_built_in, make_adapter
from holdfast.process import DaemonPool, all_done
from holdfast.sessions.contract import OWNER
from holdfast.wiring import chat_config_store, data_folder, environment
from holdfast.wiring.scope_workspaces import scope_workspace
from holdfast.wiring.workspace import workspace_of

START_SECONDS = 5.0
"""How long the platform of another package may take to be imported and to make an adapter."""


def config_name(account: str) -> str:
    """The section under which an account's configuration is stored."""
    return f"chat-{account_parts(account)[0]}"


async def account_adapters(settings: Settings) -> tuple[dict[str, Adapter], list[str]]:
    """An adapter for each account, by its name, and the accounts whose platform did not answer in time.

    The code of a platform runs on a thread of its own. That of another package has `START_SECONDS`;
    Holdfast's own can only be slow, and is waited for. `InvalidInput` says what an account lacks.
    """
    store, accounts = chat_config_store(), settings.gateway.accounts
    pool = DaemonPool("chat-platforms", workers=len(accounts), backlog=0)
    making: dict[str, Future[Adapter]] = {}
    foreign: list[Future[Adapter]] = []
    try:
        for account in accounts:
            name, platform = account_parts(account)
            values, folder = store.read(config_name(account)), data_folder() / "chat" / name
            making[name] = pool.submit(make_adapter, account, values, environment(), folder)
            if not is_built_in(platform):
                foreign.append(making[name])
        await asyncio.gather(*(asyncio.wrap_future(each) for each in making.values() if each not in foreign))
        await all_done(foreign, START_SECONDS)
    finally:
        pool.close(0)
    made = {name: each.result() for name, each in making.items() if each.done()}
    return made, [name for name in making if name not in made]


def scope_folder_of(settings: Settings, scope: str) -> Path:
    """The folder in which the agent works for a scope."""
    return workspace_of(settings).folder if scope == OWNER else scope_workspace(scope)
