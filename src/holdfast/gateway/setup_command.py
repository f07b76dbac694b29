"""`holdfast gateway setup PLATFORM`: asks for an account's credentials, tries them, and stores them."""

import sys
from collections.abc import Mapping, Sequence
from typing import Annotated

from cyclopts import Parameter

from holdfast.core.clean_text import clean
from holdfast.core.errors import InvalidInput
from holdfast.core.setting_checks import account_parts
from holdfast.gateway.account_adapters import config_name
from holdfast.gateway.contract import ChatPlatformError, Identity
from holdfast.gateway.platforms import Platform, find_platform, make_adapter
from holdfast.memory.config import missing_fields, resolve_config
from holdfast.process import run
from holdfast.wiring import chat_config_store, data_folder, environment, load_settings, settings_path
from holdfast.wiring.config_questions import chosen_values, given_values
from holdfast.wiring.settings_writer import change_settings


def setup(
    account: str,
    /,
    *,
    values: Annotated[tuple[str, ...], Parameter(name="--set", negative="")] = (),
    owner: str = "",
    check: bool = True,
) -> None:
    """Set up an account on a chat platform: asks for what it needs, tries it, stores it.

    Parameters
    ----------
    account
        A platform such as telegram; NAME=PLATFORM for a second account on it.
    values
        KEY=VALUE, as often as needed. Given values are not asked for; without a terminal nothing is asked.
    owner
        Your own id on the platform: you are let in as owner at once.
    check
        Sign in to see whether it works, and store nothing when it doesn't.

    """
    settings = load_settings()
    name, platform_name = account_parts(account)
    platform = find_platform(platform_name)
    store = chat_config_store()
    stored = store.read(config_name(account))
    _show(platform.how_to)
    chosen = _chosen(platform, values, stored)
    if check:
        identity = _tried(account, chosen)
        _show(f"Signed in as {identity.name} ({identity.id}).")
        if identity.invite:
            _show(identity.invite)
    for file, keys in store.write(config_name(account), platform.fields, chosen):
        _show(f"{', '.join(keys)}: written to {file}")
    if name not in [account_parts(each)[0] for each in settings.gateway.accounts]:
        change_settings({"gateway.accounts": ",".join([*settings.gateway.accounts, account])})
        _show(f"gateway.accounts: {account} added in {settings_path()}")
    if owner:
        _let_in(name, owner)
        _show(f"{owner} is let in as owner.")
    _show("Start it with: holdfast gateway")
    if not owner:
        _show(
            "Write to the bot. It answers with a code; this lets you in: "
            "holdfast gateway approve CODE --role owner"
        )


def _chosen(platform: Platform, values: Sequence[str], stored: Mapping[str, str]) -> dict[str, str]:
    """A value for each field: given, asked for, from a sign-in, or as it is stored."""
    given = given_values((*platform.fields, *platform.sign_in_fields), values)
    signs_in = platform.sign_in is not None and not {"token"} & given.keys()
    fields = platform.sign_in_fields if signs_in else platform.fields
    chosen = chosen_values(fields, given, stored, _show)
    config = resolve_config(fields, chosen, environment())
    if lacking := missing_fields(fields, config):
        keys = ", ".join(each.key for each in lacking)
        raise InvalidInput(f"{platform.title} needs {keys}; give them with --set KEY=VALUE")
    if signs_in and platform.sign_in is not None:
        return {key: value for key, value in run(platform.sign_in(config)).items() if value}
    return chosen


def _tried(account: str, chosen: Mapping[str, str]) -> Identity:
    adapter = make_adapter(account, chosen, environment(), data_folder() / "chat" / account_parts(account)[0])

    async def connect() -> Identity:
        try:
            return await adapter.connect()
        finally:
            await adapter.close()

    try:
        return run(connect())
    except ChatPlatformError as problem:
        said = str(problem).rstrip(".")
        raise InvalidInput(f"{said}. Nothing was stored; --no-check stores it all the same") from problem


def _let_in(account: str, person: str) -> None:
    from holdfast.wiring import open_store

    with open_store(load_settings()) as db:
        db.chat_people.put(account, person, "owner")


def _show(line: str) -> None:
    """Print a result; names come from the platform."""
    sys.stdout.write(f"{clean(line)}\n")
