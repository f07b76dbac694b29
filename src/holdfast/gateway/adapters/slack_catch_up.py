"""What was said in Slack while nobody listened: a channel's new messages, and new replies in its threads.

A channel's history has only what stands in the channel itself. A message that begins a thread says when its
last reply came, so the threads that began shortly before the cursor are looked at too.
"""

import logging
from collections.abc import AsyncIterator, Mapping
from typing import Any

from holdfast.gateway.adapters.slack_api import SlackApi
from holdfast.gateway.adapters.slack_events import microseconds
from holdfast.gateway.contract import SendRefused

logger = logging.getLogger(__name__)

THREAD_SECONDS = 7 * 86_400
"""How long before the cursor a thread may have begun."""
THREAD_PAGES = 3
"""How many pages of older messages are read for that."""
KINDS = "public_channel,private_channel,mpim,im"

Message = Mapping[str, Any]


async def missed(api: SlackApi, cursors: Mapping[str, str]) -> AsyncIterator[tuple[str, list[Message]]]:
    """For each channel what came since its cursor, oldest first.

    A channel without a cursor is read since the cursor of the account: it is new to the bot.
    """
    for channel in dict.fromkeys([*filter(None, cursors), *await _channels(api)]):
        since = cursors.get(channel) or cursors.get("")
        if since is None:
            continue
        try:
            messages = await _since(api, channel, since)
        except SendRefused as cause:
            logger.warning("slack.history_refused", extra={"channel": channel, "cause": str(cause)})
            continue
        if messages:
            yield channel, messages


async def _channels(api: SlackApi) -> list[str]:
    """Where the bot is a member."""
    found: list[str] = []
    try:
        async for page in api.pages(
            api.web.users_conversations, patient=True, types=KINDS, exclude_archived=True
        ):
            found += [str(each["id"]) for each in page["channels"]]
    except SendRefused as cause:
        logger.warning("slack.channels_refused", extra={"cause": str(cause)})
    return found


async def _since(api: SlackApi, channel: str, since: str) -> list[Message]:
    start = microseconds(since)
    found: dict[str, Message] = {}
    older = 0
    oldest = f"{max(start // 1_000_000 - THREAD_SECONDS, 0)}.000000"
    async for page in api.pages(api.web.conversations_history, patient=True, channel=channel, oldest=oldest):
        for message in page["messages"]:
            if microseconds(message["ts"]) > start:
                found[message["ts"]] = message
            if microseconds(message.get("latest_reply") or "0") > start:
                found.update({reply["ts"]: reply for reply in await _replies(api, channel, message, since)})
        older += bool(page["messages"]) and microseconds(page["messages"][-1]["ts"]) <= start
        if older >= THREAD_PAGES:
            break
    return sorted(found.values(), key=lambda message: microseconds(message["ts"]))


async def _replies(api: SlackApi, channel: str, first: Message, since: str) -> list[Message]:
    """The replies of a thread since then. Slack gives the message that begins it in any case."""
    return [
        reply
        async for page in api.pages(
            api.web.conversations_replies, patient=True, channel=channel, ts=first["ts"], oldest=since
        )
        for reply in page["messages"]
        if microseconds(reply["ts"]) > microseconds(since)
    ]
