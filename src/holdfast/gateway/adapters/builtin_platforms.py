"""The chat platforms that come with Holdfast: what each account needs.

The libraries of a platform are imported when one of its accounts is made.
"""

from collections.abc import Mapping
from pathlib import Path

from holdfast.core.clock import SystemClock
from holdfast.gateway.contract import Adapter
from holdfast.gateway.platforms import Platform
from holdfast.memory.config import ConfigField, ProviderConfig


def _telegram(config: ProviderConfig, _: Path) -> Adapter:
    from holdfast.gateway.adapters.telegram import API_URL, TelegramAdapter

    return TelegramAdapter(config.secret("token"), SystemClock(), api_url=config.text("api_url", API_URL))


def _discord(config: ProviderConfig, _: Path) -> Adapter:
    from holdfast.gateway.adapters.discord import DiscordAdapter
    from holdfast.gateway.adapters.discord_api import API_URL

    return DiscordAdapter(config.secret("token"), api_url=config.text("api_url", API_URL))


def _slack(config: ProviderConfig, _: Path) -> Adapter:
    from holdfast.gateway.adapters.slack import SlackAdapter
    from holdfast.gateway.adapters.slack_api import PUBLIC_URL

    return SlackAdapter(
        config.secret("bot_token"),
        config.secret("app_token"),
        SystemClock(),
        base_url=config.text("api_url", PUBLIC_URL),
    )


def _matrix(config: ProviderConfig, folder: Path) -> Adapter:
    from holdfast.gateway.adapters.matrix import MatrixAdapter
    from holdfast.gateway.adapters.matrix_api import MatrixCredentials

    credentials = MatrixCredentials(
        config.text("homeserver"), config.text("user_id"), config.secret("token"), config.text("device_id")
    )
    return MatrixAdapter(credentials, folder if config.flag("encryption") else None)


async def _sign_in_to_matrix(config: ProviderConfig) -> Mapping[str, str]:
    from holdfast.gateway.adapters.matrix_api import sign_in

    found = await sign_in(config.text("homeserver"), config.text("user"), config.secret("password"))
    return {
        "homeserver": found.homeserver,
        "user_id": found.user_id,
        "token": found.token.reveal(),
        "device_id": found.device_id,
        "encryption": config.text("encryption"),
    }


TELEGRAM = Platform(
    "Telegram",
    (
        ConfigField("token", "the bot's token", secret=True, required=True, env_var="TELEGRAM_BOT_TOKEN"),
        ConfigField("api_url", "the address of a Bot API server of your own"),
    ),
    "Write /newbot to @BotFather on Telegram. It asks for a name and gives you a token.",
    _telegram,
    extra="telegram",
)
DISCORD = Platform(
    "Discord",
    (
        ConfigField("token", "the bot's token", secret=True, required=True, env_var="DISCORD_BOT_TOKEN"),
        ConfigField("api_url", "the address of the API, for a proxy of your own"),
    ),
    "Make an application at https://discord.com/developers/applications. Under Bot, switch on the message "
    "content intent, and copy the token.",
    _discord,
    extra="discord",
)
SLACK = Platform(
    "Slack",
    (
        ConfigField(
            "bot_token", "the bot token, xoxb-…", secret=True, required=True, env_var="SLACK_BOT_TOKEN"
        ),
        ConfigField(
            "app_token", "the app token, xapp-…", secret=True, required=True, env_var="SLACK_APP_TOKEN"
        ),
        ConfigField("api_url", "the address of the API, for a proxy of your own"),
    ),
    "Make an app at https://api.slack.com/apps with socket mode, interactivity, an app token with "
    "connections:write, and the events app_mention, message.im, message.channels, message.groups and "
    "message.mpim. docs/chat-platforms.md lists the scopes of the bot token.",
    _slack,
    extra="slack",
)
ENCRYPTION = ConfigField(
    "encryption", "whether encrypted rooms are read and written (needs the extra matrix-e2e)", default="no"
)
MATRIX = Platform(
    "Matrix",
    (
        ConfigField("homeserver", "the address of the homeserver", required=True),
        ConfigField("user_id", "the user's id, @name:server", required=True),
        ConfigField("token", "the access token", secret=True, required=True, env_var="MATRIX_ACCESS_TOKEN"),
        ConfigField("device_id", "the device of the access token", required=True),
        ENCRYPTION,
    ),
    "Register an account for the bot on a homeserver. Holdfast signs in with its password once and keeps an "
    "access token.",
    _matrix,
    sign_in_fields=(
        ConfigField("homeserver", "the homeserver, such as matrix.org or its address", required=True),
        ConfigField("user", "the name of the bot's account", required=True),
        ConfigField("password", "its password, which is not stored", secret=True, required=True),
        ENCRYPTION,
    ),
    sign_in=_sign_in_to_matrix,
)
