"""A server that speaks the part of Telegram's Bot API that the adapter uses, as it is documented.

It runs on the loop of the test. It keeps updates until `getUpdates` asks for higher ones, ends a long poll
with 409 when another begins, and fails on demand. `telegram_platform.py` has the people who use it.
"""

import asyncio
import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from holdfast.testing.chat_platform import Fault
from tests.gateway.telegram_chats import ApiError, Chats

TOKEN = "4242:the-token-of-the-bot-under-test"
SENDING = {
    "sendMessage",
    "sendDocument",
    "sendPhoto",
    "sendVoice",
    "editMessageText",
    "editMessageMedia",
}
CONFLICT = "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running"
FIRST_UPDATE = 700_000_001
MAX_UPLOAD = 50 * 1024 * 1024

Update = dict[str, Any]


@dataclass(slots=True)
class RateLimit:
    """How many calls that send or edit are taken; more are answered with 429. A limit of 0 is none."""

    chat_seconds: float = 0.0
    account_per_second: int = 0
    group_per_minute: int = 0
    refused: int = 0
    taken: dict[str, list[float]] = field(default_factory=dict)

    def check(self, chat: str) -> None:
        """Count a call for this chat, or refuse it."""
        now = time.monotonic()
        windows = [
            (f"chat {chat}", 1 if self.chat_seconds else 0, self.chat_seconds),
            ("account", self.account_per_second, 1.0),
            (f"group {chat}", self.group_per_minute if chat.startswith("-") else 0, 60.0),
        ]
        for name, most, seconds in windows:
            recent = self.taken[name] = [each for each in self.taken.get(name, []) if each > now - seconds]
            if most and len(recent) >= most:
                self.refused += 1
                raise too_many_requests(math.ceil(recent[-most] + seconds - now) or 1)
        for name, _, _ in windows:
            self.taken[name].append(now)


def too_many_requests(seconds: int) -> ApiError:
    text = f"Too Many Requests: retry after {seconds}"
    return ApiError(429, text, {"retry_after": seconds})


class UpdateQueue:
    """The updates that the bot has not confirmed yet, by the rules of `getUpdates`."""

    def __init__(self) -> None:
        self._next = FIRST_UPDATE
        self._waiting: dict[int, Update] = {}
        self._confirmed: dict[int, Update] = {}
        self._poll: asyncio.Future[str] | None = None
        self.polled = asyncio.Event()
        """Set while a long poll waits."""
        self._again = False
        self._kick_next = False
        self._reverse = False

    @property
    def unconfirmed(self) -> list[int]:
        return sorted(self._waiting)

    @property
    def waiting(self) -> list[Update]:
        return [self._waiting[number] for number in self.unconfirmed]

    def put(self, update: Mapping[str, Any]) -> int:
        number = self._next
        self._next += 1
        self._waiting[number] = {"update_id": number, **update}
        self._wake("new")
        return number

    def renumber(self, first: int) -> None:
        """Go on with other numbers, as Telegram may after a week without updates."""
        self._next = first

    def deliver_again(self) -> None:
        self._waiting = {**self._confirmed, **self._waiting}
        self._again = True
        self._wake("new")

    def reverse_next(self) -> None:
        self._reverse = True

    def kick(self) -> None:
        """Break the long poll, or the next one if there is none."""
        if not self._wake("kick"):
            self._kick_next = True

    async def get(self, offset: int, limit: int, seconds: int) -> list[Update] | None:
        """The answer; None for a connection that breaks."""
        self._wake("conflict")
        if self._kick_next:
            self._kick_next = False
            return None
        self._confirm(offset)
        if not self._waiting and seconds:
            why = await self._wait(seconds)
            if why == "kick":
                return None
            if why == "conflict":
                raise ApiError(409, CONFLICT)
        answer = [self._waiting[number] for number in self.unconfirmed[:limit]]
        self._again = False
        if self._reverse and len(answer) > 1:
            self._reverse = False
            answer.reverse()
        return answer

    def _confirm(self, offset: int) -> None:
        if self._again or not offset:
            return
        if offset < 0:
            first = min(self.unconfirmed[offset:], default=self._next)
        elif offset > self._next + 10:
            return  # from another numbering: the real server answers from the head of its queue
        else:
            first = offset
        for number in self.unconfirmed:
            if number < first:
                self._confirmed[number] = self._waiting.pop(number)

    async def _wait(self, seconds: int) -> str:
        poll: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._poll = poll
        self.polled.set()
        try:
            async with asyncio.timeout(seconds):
                return await poll
        except TimeoutError:
            return "timeout"
        finally:
            if self._poll is poll:
                self._poll = None
                self.polled.clear()

    def _wake(self, why: str) -> bool:
        poll, self._poll = self._poll, None
        if poll is None or poll.done():
            return False
        self.polled.clear()
        poll.set_result(why)
        return True


class TelegramServer:
    """The HTTP server. `calls` has the name and the parameters of every call that it took."""

    def __init__(self) -> None:
        self.updates = UpdateQueue()
        self.chats = Chats()
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.rate = RateLimit()
        self.downloads = 0
        self._called = asyncio.Event()
        self._faults: list[Fault] = []
        self._status_faults: dict[str, ApiError] = {}
        self._runner: web.AppRunner | None = None
        self._port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    async def start(self) -> None:
        """Start, again on the same port."""
        app = web.Application(client_max_size=MAX_UPLOAD)
        app.router.add_post("/bot{token}/{method}", self._handle)
        app.router.add_get("/file/bot{token}/{path:.+}", self._file)
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self._port)
        await site.start()
        self._port = self._runner.addresses[0][1]

    async def close(self) -> None:
        runner, self._runner = self._runner, None
        if runner is not None:
            self.updates.kick()
            await runner.cleanup()

    def fail(self, fault: Fault, times: int) -> None:
        self._faults += [fault] * times

    def answer_next(self, method: str, error: ApiError) -> None:
        """Answer the next call of this method with an error."""
        self._status_faults[method] = error

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until this holds; it is asked after every call."""
        while not holds():
            self._called.clear()
            await self._called.wait()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        try:
            return await self._respond(request)
        finally:
            self._called.set()

    async def _respond(self, request: web.Request) -> web.StreamResponse:
        method = request.match_info["method"]
        fault = self._faults.pop(0) if method in SENDING and self._faults else None
        try:
            _check_token(request.match_info["token"])
            parameters = await _parameters(request)
            if fault == "drop before":
                return _broken(request)
            _refuse(fault)
            result = await self._answer(method, parameters)
        except ApiError as refused:
            if not refused.is_json:
                return web.Response(text=f"<html>{refused}</html>", status=refused.status)
            return web.json_response(refused.body, status=refused.status)
        if fault == "drop after" or (result is None and method == "getUpdates"):
            return _broken(request)
        return web.json_response({"ok": True, "result": result})

    async def _answer(self, method: str, parameters: dict[str, Any]) -> Any:  # noqa: ANN401 - any JSON
        self.calls.append((method, parameters))
        if method in self._status_faults:
            raise self._status_faults.pop(method)
        if method in SENDING:
            self.rate.check(str(parameters["chat_id"]))
        if method == "getUpdates":
            offset, seconds = int(parameters.get("offset", 0)), int(parameters.get("timeout", 0))
            return await self.updates.get(offset, int(parameters.get("limit", 100)), seconds)
        methods: dict[str, Callable[[dict[str, Any]], Any]] = {
            "getMe": lambda _: self.chats.bot,
            "sendMessage": self.chats.send_message,
            "sendDocument": self.chats.send_document,
            "sendPhoto": self.chats.send_photo,
            "sendVoice": self.chats.send_voice,
            "editMessageText": self.chats.edit_text,
            "editMessageMedia": self.chats.edit_media,
            "deleteMessage": self.chats.delete_message,
            "setMessageReaction": self.chats.react,
            "sendChatAction": self.chats.chat_action,
            "answerCallbackQuery": self.chats.answer_callback,
            "getFile": self.chats.get_file,
            "setMyCommands": self.chats.set_commands,
        }
        if method not in methods:
            raise ApiError(404, "Not Found: method not found")
        return methods[method](parameters)

    async def _file(self, request: web.Request) -> web.StreamResponse:
        self.downloads += 1
        content = self.chats.files_by_path.get(request.match_info["path"])
        if request.match_info["token"] != TOKEN or content is None:
            return web.json_response(ApiError(404, "Not Found").body, status=404)
        return web.Response(body=content)


def _check_token(token: str) -> None:
    if token != TOKEN:
        raise ApiError(401, "Unauthorized")


def _refuse(fault: Fault | None) -> None:
    if fault == "slow down":
        raise too_many_requests(1)
    if fault == "refuse":
        raise ApiError(403, "Forbidden: bot was blocked by the user")


def _broken(request: web.Request) -> web.StreamResponse:
    if request.transport is not None:
        request.transport.abort()
    return web.Response()


async def _parameters(request: web.Request) -> dict[str, Any]:
    """The fields of the form; what looks like JSON is decoded, and an attached file is its name and bytes."""
    form = await request.post()
    parameters: dict[str, Any] = {}
    for name, value in form.items():
        if isinstance(value, web.FileField):
            parameters[name] = (value.filename, value.file.read())
        elif isinstance(value, str) and value[:1] in "[{" and name not in ("text", "caption"):
            parameters[name] = json.loads(value)
        else:
            parameters[name] = value
    return parameters
