"""A small Discord for tests: REST v10 and the gateway over HTTP in this process, and the people on it.

`DiscordPlatform` is the control plane. The sockets are in `discord_sessions.py`, what there is in
`discord_world.py`. As on the real one, a nonce counts for some minutes and is not part of the history.
"""

import asyncio
import base64
import json
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from aiohttp import web

from holdfast.core.secret import Secret
from holdfast.gateway.adapters.discord import DiscordAdapter
from holdfast.gateway.contract import Place
from holdfast.testing.chat_platform import Fault, SeenMessage
from tests.gateway.discord_sessions import Sessions
from tests.gateway.discord_world import DIRECT, TEXT, THREAD, Json, Refused, World

# Ten on the real one, which nobody wants to wait for.
TYPING_SECONDS = 2.0
CONTENT_FLAG = 1 << 18
PRESS, COMMAND, BUTTON = 3, 2, 2
THREAD_CREATED = 18
TOKEN_TAIL = "Gabcde.the-rest-of-a-token"

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class DiscordPlatform:
    """`ChatPlatform`, and what only Discord has: threads, commands, intents, nonces that are forgotten."""

    def __init__(self) -> None:
        self.world = World()
        own = base64.b64encode(self.world.bot["id"].encode()).decode().rstrip("=")
        self.token = f"{own}.{TOKEN_TAIL}"
        self.sessions = Sessions(self.world, self.token)
        self.faults: list[Fault | str] = []
        self.bodies: list[Json] = []
        """What the bot asked to send or to edit."""
        self.notes: list[tuple[str, Json]] = []
        """The answers to presses and commands: the id of the interaction, and its answer."""
        self.commands: list[Json] = []
        self.calls: list[str] = []
        self.history_gate = asyncio.Event()
        """While it is not set, calls for the messages of a channel wait."""
        self.history_gate.set()
        self.history_asked = asyncio.Event()
        self.history_faults: list[web.Response] = []
        """Answers to the next calls for the messages of a channel."""
        self.shards = 1
        self.interaction_answered = asyncio.Event()
        self._interactions: dict[str, str] = {}
        self._typing: dict[str, float] = {}
        self._runner: web.AppRunner | None = None
        self.url = ""

    async def start(self) -> None:
        app = web.Application(middlewares=[self._guard], client_max_size=30_000_000)
        api = "/api/v10"
        app.add_routes(
            [
                web.get("/gateway", self.sessions.serve),
                web.get("/attachments/{file}/{name}", self._attachment),
                web.get(f"{api}/gateway/bot", self._gateway),
                web.get(f"{api}/users/@me", self._me),
                web.get(f"{api}/users/@me/guilds", self._guilds),
                web.get(f"{api}/guilds/{{guild}}/channels", self._guild_channels),
                web.get(f"{api}/guilds/{{guild}}/threads/active", self._guild_threads),
                web.get(f"{api}/applications/@me", self._application),
                web.put(f"{api}/applications/{{app}}/commands", self._put_commands),
                web.get(f"{api}/channels/{{channel}}", self._channel),
                web.get(f"{api}/channels/{{channel}}/messages", self._history),
                web.post(f"{api}/channels/{{channel}}/messages", self._send),
                web.get(f"{api}/channels/{{channel}}/messages/{{message}}", self._message),
                web.patch(f"{api}/channels/{{channel}}/messages/{{message}}", self._edit),
                web.delete(f"{api}/channels/{{channel}}/messages/{{message}}", self._delete),
                web.put(
                    f"{api}/channels/{{channel}}/messages/{{message}}/reactions/{{sign}}/@me", self._react
                ),
                web.post(f"{api}/channels/{{channel}}/typing", self._type),
                web.post(f"{api}/interactions/{{interaction}}/{{token}}/callback", self._callback),
            ]
        )
        self._runner = web.AppRunner(app, shutdown_timeout=1.0)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        host, port = self._runner.addresses[0][:2]
        self.url = f"http://{host}:{port}"

    async def close(self) -> None:
        self.history_gate.set()
        self.sessions.hello_gate.set()
        await self.sessions.close()
        if self._runner is not None:
            await self._runner.cleanup()

    def adapter(self, connect_seconds: float = 60.0) -> DiscordAdapter:
        api_url = f"{self.url}/api/v10"
        return DiscordAdapter(Secret(self.token), api_url=api_url, connect_seconds=connect_seconds)

    async def direct(self, person: str) -> Place:
        user = self.world.user(person)
        for own, channel in self.world.channels.items():
            if channel["type"] == DIRECT and channel["recipients"] == [user]:
                return Place(own)
        return Place(self.world.new_channel(DIRECT, None, recipients=[user]))

    async def group(self, people: Sequence[str]) -> Place:
        for person in people:
            self.world.user(person)
        return Place(self.world.new_channel(TEXT, "talk"))

    async def thread(self, place: Place, on: str = "") -> Place:
        """A thread without a message, or on one: Discord says so in the channel unless that is the newest."""
        newest = self.world.messages[place.chat][-1:]
        own = self.world.new_channel(THREAD, "a thread", own=on, parent_id=place.chat)
        if on and newest[0]["id"] == on:
            newest[0]["thread"] = self.world.channels[own]
        else:
            more = {"type": THREAD_CREATED, "message_reference": {"channel_id": own}}
            message = self.world.add(place.chat, self.world.user("ann"), "a thread") | more
            self.world.messages[place.chat][-1] = message
            await self._dispatch_message(message)
        return Place(place.chat, own)

    async def say(
        self, place: Place, person: str, text: str, *, mention: bool = False, reply_to: str = ""
    ) -> str:
        content = f"<@{self.world.bot['id']}> {text}" if mention else text
        more: Json = {"message_reference": {"message_id": reply_to}} if reply_to else {}
        return await self._said(place, self.world.user(person), content, more)

    async def bot_says(self, place: Place, bot: str, text: str) -> str:
        return await self._said(place, self.world.user(bot, bot=True), text, {})

    async def send_file(self, place: Place, person: str, name: str, content: bytes) -> str:
        more = {"attachments": [self.world.attach(name, content, self.url)]}
        return await self._said(place, self.world.user(person), "", more)

    async def press(self, place: Place, person: str, message_id: str, value: str) -> None:
        own = place.thread or place.chat
        message = self.world.message(own, message_id)
        assert value in self.world.seen(message, place.thread).buttons
        data = {"custom_id": value, "component_type": BUTTON}
        await self._interact(place, person, {"type": PRESS, "message": message, "data": data})

    async def choose_command(self, place: Place, person: str, name: str, text: str = "") -> None:
        assert name in [command["name"] for command in self.commands]
        options = [{"name": "text", "type": 3, "value": text}] if text else []
        await self._interact(place, person, {"type": COMMAND, "data": {"name": name, "options": options}})

    async def messages(self, place: Place) -> list[SeenMessage]:
        own = place.thread or place.chat
        found = [one for one in self.world.messages[own] if one["type"] != THREAD_CREATED]
        return [self.world.seen(message, place.thread) for message in found]

    async def fail(self, fault: Fault, times: int = 1) -> None:
        self.faults += [fault] * times

    async def kick(self) -> None:
        await self.sessions.kick()

    async def deliver_again(self) -> None:
        await self.sessions.deliver_again()

    def is_typing(self, place: Place) -> bool:
        return self._typing.get(place.thread or place.chat, 0.0) > time.monotonic()

    def forget_nonces(self) -> None:
        """Some minutes pass."""
        self.world.of_nonces.clear()

    def expire_interactions(self) -> None:
        """Three seconds pass."""
        self._interactions.clear()

    async def _said(self, place: Place, author: Json, content: str, more: Json) -> str:
        own = place.thread or place.chat
        message = self.world.add(own, author, content, **more)
        await self._dispatch_message(message)
        return str(message["id"])

    async def _dispatch_message(self, message: Json, **more: object) -> None:
        channel = self.world.channels[message["channel_id"]]
        place = {"guild_id": channel["guild_id"]} if "guild_id" in channel else {}
        await self.sessions.dispatch("MESSAGE_CREATE", {**message, **place, **more})

    async def _interact(self, place: Place, person: str, payload: Json) -> None:
        channel = self.world.channels[place.thread or place.chat]
        own, user = self.world.new_id(), self.world.user(person)
        token = f"token-of-{own}"
        self._interactions[token] = own
        who = (
            {"member": {"user": user}, "guild_id": self.world.guild}
            if "guild_id" in channel
            else {"user": user}
        )
        self.interaction_answered.clear()
        await self.sessions.dispatch(
            "INTERACTION_CREATE",
            {
                "id": own,
                "application_id": self.world.bot["id"],
                "token": token,
                "version": 1,
                "channel_id": channel["id"],
                "channel": channel,
                **who,
                **payload,
            },
        )

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if not request.path.startswith("/api/"):
            return await handler(request)
        self.calls.append(f"{request.method} {request.path.removeprefix('/api/v10')}")
        is_callback = request.path.endswith("/callback")
        if not is_callback and request.headers.get("Authorization") != f"Bot {self.token}":
            return answer(401, {"message": "401: Unauthorized", "code": 0})
        try:
            return await self._with_fault(request, handler)
        except Refused as refused:
            return answer(refused.status, {"message": refused.message, "code": refused.code})

    async def _with_fault(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        is_new = request.method == "POST" and request.path.endswith("/messages")
        changes = is_new or request.method == "PATCH"
        fault = self.faults.pop(0) if changes and self.faults else None
        if fault in {"slow down", "slow down everywhere"}:
            return too_many(is_global=fault == "slow down everywhere")
        if fault == "refuse":
            raise Refused(403, 50001, "Missing Access")
        if fault == "trouble":
            return answer(502, {"message": "Bad Gateway"})
        response = None if fault == "drop before" else await handler(request)
        if fault in {"drop before", "drop after"}:
            assert request.transport is not None
            request.transport.abort()
        return response or web.Response()

    async def _gateway(self, request: web.Request) -> web.Response:
        limit = {"total": 1000, "remaining": 999, "reset_after": 1000, "max_concurrency": self.shards}
        url = f"ws://{request.host}/gateway"
        return answer(200, {"url": url, "shards": self.shards, "session_start_limit": limit})

    async def _me(self, request: web.Request) -> web.Response:
        return answer(200, self.world.bot)

    async def _guilds(self, request: web.Request) -> web.Response:
        is_first = int(request.query.get("after", 0)) < int(self.world.guild)
        return answer(200, [{"id": self.world.guild, "name": "a server"}] if is_first else [])

    async def _guild_channels(self, request: web.Request) -> web.Response:
        return answer(200, self.world.of_guild(TEXT))

    async def _guild_threads(self, request: web.Request) -> web.Response:
        return answer(200, {"threads": self.world.of_guild(THREAD), "members": []})

    async def _application(self, request: web.Request) -> web.Response:
        flags = CONTENT_FLAG if self.sessions.has_message_content else 0
        return answer(200, {"id": self.world.bot["id"], "name": "holdfast", "flags": flags})

    async def _put_commands(self, request: web.Request) -> web.Response:
        self.commands = await request.json()
        return answer(200, self.commands)

    async def _channel(self, request: web.Request) -> web.Response:
        return answer(200, self.world.channel(request.match_info["channel"]))

    async def _history(self, request: web.Request) -> web.Response:
        page = self.world.page(request.match_info["channel"], request.query)
        self.history_asked.set()
        if self.history_faults:
            return self.history_faults.pop(0)
        await self.history_gate.wait()
        return answer(200, page)

    async def _message(self, request: web.Request) -> web.Response:
        return answer(200, self.world.message(request.match_info["channel"], request.match_info["message"]))

    async def _send(self, request: web.Request) -> web.Response:
        body, files = await _body(request)
        self.bodies.append(body)
        channel, nonce = request.match_info["channel"], body.get("nonce")
        if nonce is not None and len(nonce) > 25:
            raise Refused(400, 50035, "Invalid Form Body")
        if body.get("enforce_nonce") and nonce in self.world.of_nonces:
            return answer(200, self.world.message(channel, self.world.of_nonces[nonce]))
        body["attachments"] = [self.world.attach(name, content, self.url) for name, content in files]
        message = self.world.add(channel, self.world.bot, body.pop("content", ""), **body)
        if nonce is not None:
            self.world.of_nonces[nonce] = message["id"]
        self._typing.pop(channel, None)
        await self._dispatch_message(message, nonce=nonce)
        return answer(200, {**message, "nonce": nonce})

    async def _edit(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.bodies.append(body)
        message = self.world.message(request.match_info["channel"], request.match_info["message"])
        if message["author"]["id"] != self.world.bot["id"]:
            raise Refused(403, 50005, "Cannot edit a message authored by another user")
        message |= {key: body[key] for key in ("content", "components") if key in body}
        return answer(200, message)

    async def _delete(self, request: web.Request) -> web.Response:
        channel = request.match_info["channel"]
        message = self.world.message(channel, request.match_info["message"])
        self.world.messages[channel].remove(message)
        return web.Response(status=204)

    async def _react(self, request: web.Request) -> web.Response:
        message = self.world.message(request.match_info["channel"], request.match_info["message"])
        found = (message["id"], request.match_info["sign"])
        if found not in self.world.reactions:
            self.world.reactions.append(found)
        return web.Response(status=204)

    async def _type(self, request: web.Request) -> web.Response:
        channel = self.world.channel(request.match_info["channel"])
        self._typing[channel["id"]] = time.monotonic() + TYPING_SECONDS
        return web.Response(status=204)

    async def _callback(self, request: web.Request) -> web.Response:
        token, own = request.match_info["token"], request.match_info["interaction"]
        if self._interactions.get(token) != own:
            raise Refused(404, 10062, "Unknown interaction")
        if own in [answered for answered, _ in self.notes]:
            raise Refused(400, 40060, "Interaction has already been acknowledged.")
        self.notes.append((own, await request.json()))
        self.interaction_answered.set()
        return web.Response(status=204)

    async def _attachment(self, request: web.Request) -> web.Response:
        """Another host in the real world: the bot's token has no business there."""
        assert "Authorization" not in request.headers
        return web.Response(body=self.world.files[request.match_info["file"]])


def answer(status: int, payload: object, headers: dict[str, str] | None = None) -> web.Response:
    """Exactly `application/json`, as Discord sends it."""
    body = json.dumps(payload).encode()
    return web.Response(
        status=status,
        body=body,
        headers={"Content-Type": "application/json", "Via": "1.1 google", **(headers or {})},
    )


def too_many(*, is_global: bool) -> web.Response:
    headers = {"Retry-After": "1", "X-RateLimit-Scope": "global" if is_global else "user"}
    payload: dict[str, Any] = {
        "message": "You are being rate limited.",
        "retry_after": 0.25,
        "global": is_global,
    }
    return answer(429, payload, headers)


async def _body(request: web.Request) -> tuple[Json, list[tuple[str, bytes]]]:
    if not request.content_type.startswith("multipart/"):
        return await request.json(), []
    body: Json = {}
    files: list[tuple[str, bytes]] = []
    form = await request.post()
    for name, value in form.items():
        if isinstance(value, web.FileField):
            files.append((value.filename, value.file.read()))
        elif name == "payload_json":
            body = json.loads(str(value))
    return body, files
