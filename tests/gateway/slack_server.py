"""A small Slack: socket mode and the Web API (`slack_methods.py`), over real HTTP and WebSocket.

It does as Slack documents it. An envelope that is not acknowledged in 3 s comes again, at most three times;
what happens while no socket is open is delivered to nobody and stands only in the history.
"""

import asyncio
import json
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from typing import Any

from aiohttp import WSMessage, WSMsgType, web

from holdfast.testing.chat_platform import Fault
from tests.gateway.slack_methods import WebMethods
from tests.gateway.slack_workspace import BOT_USER, TEAM, Channel, Json, Refusal, Workspace

BOT_TOKEN = "xoxb-of-the-bot"
APP_TOKEN = "xapp-of-the-app"
SENDING = frozenset({"chat.postMessage", "chat.update"})
MOST_RETRIES = 3


@dataclass(eq=False)
class Socket:
    response: web.WebSocketResponse
    request: web.Request
    is_leaving: bool = False


class SlackServer:
    """Serves on 127.0.0.1. `calls` has every call of the Web API, `sent` every envelope."""

    def __init__(self, *, ack_seconds: float = 3.0) -> None:
        self.workspace = Workspace()
        self.ack_seconds = ack_seconds
        self.page_size = 0
        """If set, no page has more messages."""
        self.calls: list[tuple[str, Json]] = []
        self.sent: list[Json] = []
        self.acknowledged: list[str] = []
        self.revoked: set[str] = set()
        self.locked: set[str] = set()
        """Files that the bot may not read."""
        self.errors: dict[str, deque[str]] = {}
        """By method, what its next calls are answered with: an error of Slack, or a fault."""
        self.is_deaf = False
        """Whether new sockets answer no ping, as when a router has forgotten the connection."""
        self.gates: dict[str, asyncio.Event] = {}
        """By method, what its calls wait for before they are answered."""
        self.open_sockets: list[Socket] = []
        self.changed = asyncio.Condition()
        """Notified after each call, envelope, acknowledgement, and socket that opens or closes."""
        self._numbers = count(1)
        self._tickets: set[str] = set()
        self._pongs: set[bytes] = set()
        self.waiting: dict[str, Json] = {}  # not acknowledged yet
        self.hellos: list[Socket] = []
        self._held: list[Json] | None = None
        self._runner: web.AppRunner | None = None
        self._port = 0
        self.link_port = 0
        """The port that sockets are told to use, e.g. that of a proxy; 0: the server's own."""
        self.methods = WebMethods(self.workspace)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}/api/"

    async def start(self) -> None:
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_route("*", "/api/{method}", self._serve)
        app.router.add_get("/link", self._serve_socket)
        app.router.add_post("/upload/{file}", self._take_file)
        app.router.add_get("/files/{file}", self._give_file)
        app.router.add_get("/signin", _page_to_sign_in)
        self._runner = web.AppRunner(app, shutdown_timeout=0.5, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self._port = self._runner.addresses[0][1]
        self.methods.origin = f"http://127.0.0.1:{self._port}"

    async def close(self) -> None:
        self.waiting.clear()
        self.kick()
        if self._runner is not None:
            await self._runner.cleanup()

    async def until(self, condition: Callable[[], bool], seconds: float = 20.0) -> None:
        """Wait for a state of the server."""
        async with asyncio.timeout(seconds), self.changed:
            await self.changed.wait_for(condition)

    # What a test tells it to do.

    def fail(self, method: str, error: str | Fault, times: int = 1) -> None:
        self.errors.setdefault(method, deque()).extend([error] * times)

    def kick(self) -> None:
        """Break every socket without a word."""
        for socket in self.open_sockets:
            if socket.request.transport is not None:
                socket.request.transport.abort()

    async def disconnect(self, reason: str) -> None:
        """Ask for a new connection; the old one is closed when the new one is there."""
        for socket in self.open_sockets:
            socket.is_leaving = True
            await socket.response.send_json({"type": "disconnect", "reason": reason, "debug_info": {}})

    async def flush(self) -> None:
        """Wait until the newest socket's other side has read all that was sent to it."""
        mark = f"flush-{next(self._numbers)}".encode()
        await self.open_sockets[-1].response.ping(mark)
        await self.until(lambda: mark in self._pongs)

    def forget(self) -> None:
        """Deliver nothing again that waits for its acknowledgement."""
        self.waiting.clear()

    def called(self, method: str) -> int:
        """How often a method was called."""
        return sum(name == method for name, _ in self.calls)

    def hold(self) -> list[Json]:
        """Keep back the next envelopes until `release`; returns where they are kept."""
        self._held = []
        return self._held

    async def release(self, order: Callable[[list[Json]], list[Json]] = list) -> None:
        held, self._held = self._held or [], None
        for envelope in order(held):
            await self.send(envelope)

    async def deliver_again(self) -> None:
        """Deliver every envelope once more."""
        for envelope in list(self.sent):
            if envelope["retry_attempt"] == 0:
                await self.send({**envelope, "retry_attempt": 1, "retry_reason": "timeout"})

    async def deliver(self, kind: str, payload: Json) -> None:
        """Send an envelope to the newest socket; without one nobody gets it."""
        envelope = {
            "envelope_id": f"envelope-{next(self._numbers)}",
            "type": kind,
            "payload": payload,
            "accepts_response_payload": kind != "events_api",
            "retry_attempt": 0,
            "retry_reason": "",
        }
        if self._held is not None:
            self._held.append(envelope)
        elif self.open_sockets:
            await self.send(envelope)

    async def announce(self, channel: Channel, message: Json) -> None:
        """The events of a new message: `message`, and `app_mention` when it names the bot."""
        if BOT_USER not in channel.members:
            return
        event = {**message, "channel": channel.id, "event_ts": message["ts"]}
        kinds = ["message"]
        if f"<@{BOT_USER}>" in message["text"] and channel.type != "im":
            kinds.append("app_mention")
        for kind in kinds:
            typed = {"channel_type": channel.type} if kind == "message" else {}
            await self.deliver("events_api", self._callback({**event, **typed, "type": kind}))

    def _callback(self, event: Json) -> Json:
        number = next(self._numbers)
        return {"type": "event_callback", "team_id": TEAM, "event_id": f"Ev{number:06d}", "event": event}

    async def send(self, envelope: Json) -> None:
        self.sent.append(envelope)
        self.waiting[envelope["envelope_id"]] = envelope
        if envelope["type"] == "events_api" and envelope["retry_attempt"] < MOST_RETRIES:
            asyncio.get_running_loop().call_later(self.ack_seconds, self._retry_soon, envelope)
        if self.open_sockets:
            with suppress(ConnectionError):  # it comes again on the next socket
                await self.open_sockets[-1].response.send_json(envelope)
        await self._notify()

    def _retry_soon(self, envelope: Json) -> None:
        if self.waiting.get(envelope["envelope_id"]) is envelope and self.open_sockets:
            task = asyncio.ensure_future(self._retry(envelope))
            task.add_done_callback(lambda done: done.cancelled() or done.exception())

    async def _retry(self, envelope: Json) -> None:
        attempt = envelope["retry_attempt"] + 1
        await self.send({**envelope, "retry_attempt": attempt, "retry_reason": "timeout"})

    # Socket mode.

    def _open_connection(self) -> Json:
        ticket = f"ticket-{next(self._numbers)}"
        self._tickets.add(ticket)
        return {"url": f"ws://127.0.0.1:{self.link_port or self._port}/link?ticket={ticket}"}

    async def _serve_socket(self, request: web.Request) -> web.StreamResponse:
        ticket = request.query.get("ticket", "")
        if ticket not in self._tickets:
            raise web.HTTPForbidden
        self._tickets.discard(ticket)
        response = web.WebSocketResponse(autoping=False)
        await response.prepare(request)
        socket = Socket(response, request)
        self.open_sockets.append(socket)
        self.hellos.append(socket)
        await response.send_json(
            {"type": "hello", "num_connections": len(self.open_sockets), "connection_info": {"app_id": "A1"}}
        )
        # What a broken connection left without an acknowledgement comes on the next one.
        for envelope in list(self.waiting.values()):
            await self._retry(envelope)
        for old in [each for each in self.open_sockets if each.is_leaving]:
            await old.response.close()
        await self._notify()
        try:
            async for frame in response:
                await self._take_frame(frame, response)
        finally:
            self.open_sockets.remove(socket)
            await self._notify()
        return response

    async def _take_frame(self, frame: WSMessage, response: web.WebSocketResponse) -> None:
        if frame.type is WSMsgType.TEXT:
            answer = json.loads(frame.data)
            self.waiting.pop(answer["envelope_id"], None)
            self.acknowledged.append(answer["envelope_id"])
        elif frame.type is WSMsgType.PING and not self.is_deaf:
            await response.pong(frame.data)
        elif frame.type is WSMsgType.PONG:
            self._pongs.add(bytes(frame.data))
        await self._notify()

    async def _notify(self) -> None:
        async with self.changed:
            self.changed.notify_all()

    # The Web API.

    async def _serve(self, request: web.Request) -> web.Response:
        method = request.match_info["method"]
        arguments = await _arguments(request)
        token = arguments.pop("token", "") or request.headers.get("Authorization", "").removeprefix("Bearer ")
        self.calls.append((method, arguments))
        await self._notify()
        if method in self.gates:
            await self.gates[method].wait()
        waiting = self.errors.get(method)
        fault = waiting.popleft() if waiting else ""
        try:
            if fault == "slow down":
                body = {"ok": False, "error": "ratelimited"}
                return web.json_response(body, status=429, headers={"Retry-After": "1"})
            if fault == "broken server":
                return web.Response(status=503, text="upstream connect error", content_type="text/html")
            if fault != "drop before":
                answer = self._answer(method, arguments, token, "is_archived" if fault == "refuse" else fault)
                await self._announce_own(method, answer)
            else:
                answer = {}
            if fault in ("drop before", "drop after") and request.transport is not None:
                request.transport.abort()
            return web.json_response(answer)
        finally:
            await self._notify()

    async def _announce_own(self, method: str, answer: Json) -> None:
        """The event of the bot's own message; its edits and deletions are told, too."""
        if not answer["ok"] or "message" not in answer:
            return
        channel, message = self.workspace.channel(answer["channel"]), answer["message"]
        if method == "chat.postMessage":
            await self.announce(channel, message)
            return
        change = {"type": "message", "channel": channel.id, "ts": self.workspace.ts(), "hidden": True}
        if method == "chat.update":
            change |= {"subtype": "message_changed", "message": message}
        else:
            change |= {"subtype": "message_deleted", "previous_message": message}
        await self.deliver("events_api", self._callback(change))

    def _answer(self, method: str, arguments: Json, token: str, fault: str) -> Json:
        try:
            self._check_token(method, token)
            if self.page_size:
                arguments["limit"] = min(int(arguments.get("limit") or 100), self.page_size)
            refused = fault not in ("", "drop after")
            answer = {"ok": False, "error": fault} if refused else self._call(method, arguments)
        except Refusal as refusal:
            return {"ok": False, "error": str(refusal)}
        return {"ok": True, **answer}

    def _call(self, method: str, arguments: Json) -> Json:
        if method == "apps.connections.open":
            return self._open_connection()
        return self.methods.table[method](arguments)

    def _check_token(self, method: str, token: str) -> None:
        if token != (APP_TOKEN if method == "apps.connections.open" else BOT_TOKEN):
            raise Refusal("invalid_auth")
        if token in self.revoked:
            raise Refusal("token_revoked")

    # Files.

    async def _take_file(self, request: web.Request) -> web.Response:
        file = self.workspace.files[request.match_info["file"]]
        file.content = await request.read()
        return web.Response(text=f"OK - {len(file.content)}")

    async def _give_file(self, request: web.Request) -> web.Response:
        key = request.match_info["file"]
        if request.headers.get("Authorization") != f"Bearer {BOT_TOKEN}" or key in self.locked:
            raise web.HTTPFound("/signin")
        return web.Response(body=self.workspace.files[key].content)


async def _page_to_sign_in(_: web.Request) -> web.Response:
    return web.Response(text="<html>Sign in</html>", content_type="text/html")


async def _arguments(request: web.Request) -> Json:
    found: Json = dict(request.query)
    if request.content_type == "application/json":
        found.update(await request.json())
    elif request.method == "POST":
        form: Mapping[str, Any] = await request.post()
        found.update(form)
    return found
