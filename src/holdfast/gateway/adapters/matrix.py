"""Matrix: rooms, threads, edits, reactions and files over a homeserver's client API.

Read `gateway/contract.py` first. `matrix_receiver.py` receives, `matrix_events.py` reads events,
`matrix_markup.py` writes them, `matrix_api.py` makes the calls and signs in. Matrix has no buttons. Edits by
people are not received. Encrypted rooms need keys (`matrix_encryption.py`): a message that can't be read is
received without text.
"""

import io
import json
import mimetypes
import uuid
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import IO, Any

from holdfast.gateway.adapters.matrix_api import (
    MEDIA,
    NOT_FOUND,
    MatrixApi,
    MatrixCredentials,
    MatrixRefused,
    path_of,
    sign_in,
    told,
)
from holdfast.gateway.adapters.matrix_encryption import MatrixEncryption, decrypt_file, encrypt_file
from holdfast.gateway.adapters.matrix_events import Event, events_in, part, relation, text
from holdfast.gateway.adapters.matrix_markup import measured, written
from holdfast.gateway.adapters.matrix_receiver import MatrixReceiver, MatrixRooms
from holdfast.gateway.contract import (
    AdapterTraits,
    Batch,
    ChatFile,
    Command,
    FileTooLarge,
    Identity,
    Incoming,
    Outgoing,
    Place,
    Route,
    SendRefused,
    SignInRefused,
)
from holdfast.process import DaemonPool, off_loop

__all__ = ["MatrixAdapter", "MatrixCredentials", "sign_in"]

TRAITS = AdapterTraits(
    # An event has 64 KB at most, with all that servers add to it.
    max_size=25_000,
    repeat="key",
    # Synapse keeps a key for a day, Dendrite for half an hour at least.
    key_seconds=1_800.0,
    chat_seconds=0.2,
    account_per_second=10.0,
    # Servers count an edit as a message; Synapse's default is ten at once, then one in five seconds.
    edit_seconds=3.0,
    typing_seconds=10.0,
    max_upload=50_000_000,
    max_download=50_000_000,
    has_buttons=False,
    has_history=True,
)
KEY = "holdfast.key"
"""The field of a message with the gateway's key, which any device of the account can find."""
PAGE = 100
MOST_PAGES = 10
PREVIEW = 200
KINDS = {"image": "m.image", "audio": "m.audio", "video": "m.video"}


class MatrixAdapter:
    """One account on one homeserver."""

    def __init__(self, credentials: MatrixCredentials, keys: Path | None = None) -> None:
        """With a folder for `keys`, encrypted rooms can be read and written (the extra `matrix-e2e`)."""
        self.traits = TRAITS
        self._credentials = credentials
        self._me = credentials.user_id
        self._api = MatrixApi(credentials.homeserver, credentials.token)
        self._encryption = None if keys is None else MatrixEncryption(self._api, credentials, keys)
        self._rooms = MatrixRooms(self._api, self._me, self._encryption)
        self._disk = DaemonPool("matrix-files", workers=2, backlog=64)

    async def connect(self) -> Identity:
        if self._encryption is not None:
            self._encryption.open()
        try:
            found = await self._api.call("GET", path_of("account", "whoami"))
        except SendRefused as cause:
            raise SignInRefused(str(cause)) from cause
        signed_in = (text(found, "user_id"), text(found, "device_id"))
        if signed_in != (self._me, self._credentials.device_id):
            raise SignInRefused(f"the token is for {' on device '.join(signed_in)}: sign in again")
        name = text(await self._known("profile", self._me, "displayname"), "displayname")
        self._rooms.names = [self._me, *self._rooms.names[1:2], *([name] if name else [])]
        try:
            limit = (await self._api.call("GET", f"{MEDIA}/config")).get("m.upload.size")
        except SendRefused:
            limit = None
        if isinstance(limit, int) and limit > 0:
            self.traits = replace(TRAITS, max_upload=limit)
        return Identity(
            self._me,
            name or self._rooms.names[1],
            f"Start a direct chat with {self._me}, or invite it to a room.",
        )

    def receive(self, cursors: Mapping[str, str]) -> AsyncGenerator[Batch, None]:
        return MatrixReceiver(self._api, self._rooms, self._me).batches(cursors.get("", ""))

    async def send(self, route: Route, message: Outgoing, key: str) -> str:
        content = await self._with_file(route, message) if message.file is not None else _content(message)
        content |= {**_relation(route), KEY: _transaction(key)}
        return await self._say(route, content, _transaction(key))

    async def find_sent(self, route: Route, key: str) -> str | None:
        mark = _transaction(key)
        wanted = {"types": ["m.room.message", "m.room.encrypted"], "senders": [self._me]}
        async with aclosing(self._older(route.place.chat, "", wanted)) as events:
            async for event in events:
                marks = (part(event, "content").get(KEY), part(event, "unsigned").get("transaction_id"))
                if mark in marks:
                    return text(event, "event_id")
        return None

    async def edit(self, route: Route, message_id: str, message: Outgoing) -> None:
        content = _content(message)
        # The text for clients without edits is short, for an event has room for the whole only once.
        outside = {"msgtype": content["msgtype"], "body": f"* {message.text[:PREVIEW]}", "m.mentions": {}}
        relates = {"rel_type": "m.replace", "event_id": message_id}
        edited = {**outside, "m.new_content": content, "m.relates_to": relates}
        await self._say(route, edited, uuid.uuid4().hex)

    async def delete(self, route: Route, message_id: str) -> None:
        key = _transaction(f"delete {message_id}")
        try:
            await self._api.call("PUT", path_of("rooms", route.place.chat, "redact", message_id, key), {})
        except MatrixRefused as cause:
            if cause.status != NOT_FOUND:
                raise

    async def react(self, route: Route, message_id: str, emoji: str) -> None:
        relates = {"rel_type": "m.annotation", "event_id": message_id, "key": emoji}
        key = _transaction(f"react {message_id} {emoji}")
        try:
            await self._put(route, "m.reaction", {"m.relates_to": relates}, key)
        except MatrixRefused as cause:
            if cause.code != "M_DUPLICATE_ANNOTATION":
                raise

    async def show_typing(self, route: Route) -> None:
        await self._type(route, {"typing": True, "timeout": int(self.traits.typing_seconds * 1000)})

    async def stop_typing(self, route: Route) -> None:
        await self._type(route, {"typing": False})

    async def confirm_press(self, press: Incoming, note: str) -> None:
        """There are no buttons."""

    async def download(self, file: ChatFile, target: Path, most: int) -> None:
        try:
            await self._fetch(file, target, most)
        except BaseException:
            _remove(target)
            raise

    async def history(self, place: Place, before: str, most: int) -> Sequence[Incoming]:
        found: list[Incoming] = []
        reached = not before
        wanted = {"types": ["m.room.message", "m.room.encrypted", "m.sticker"]}
        async with aclosing(self._older(place.chat, before, wanted)) as events:
            async for event in events:
                if text(event, "event_id") == before:
                    reached = True
                elif reached and _is_in(event, place):
                    message = await self._rooms.read(place.chat, event)
                    found.extend([message] if message is not None else [])
                if len(found) >= most:
                    break
        return found[::-1]

    async def set_commands(self, commands: Sequence[Command]) -> None:
        """Matrix lists no commands."""

    def measure(self, markdown: str) -> int:
        return measured(markdown)

    async def close(self) -> None:
        await self._api.aclose()
        if self._encryption is not None:
            self._encryption.close()
        self._disk.close(0)

    async def _fetch(self, file: ChatFile, target: Path, most: int) -> None:
        is_hidden = file.ref.startswith("{")
        address = text(json.loads(file.ref), "url") if is_hidden else file.ref
        out: IO[bytes] = io.BytesIO() if is_hidden else await off_loop(self._disk, target.open, "wb")
        left = most
        with out:
            async with aclosing(self._api.download(address)) as pieces:
                async for piece in pieces:
                    left -= len(piece)
                    if left < 0:
                        raise FileTooLarge(f"{file.name} has more than {most} bytes")
                    await off_loop(self._disk, out.write, piece)
            if isinstance(out, io.BytesIO):
                clear = await off_loop(self._disk, decrypt_file, out.getvalue(), file.ref)
                await off_loop(self._disk, target.write_bytes, clear)

    async def _with_file(self, route: Route, message: Outgoing) -> dict[str, Any]:
        assert message.file is not None  # noqa: S101 - asked by `send`
        name = message.file.name
        media_type = mimetypes.guess_type(name)[0] or "application/octet-stream"
        size = (await off_loop(self._disk, message.file.stat)).st_size
        if size > self.traits.max_upload:
            raise FileTooLarge(f"{name} has {size} bytes; the Matrix server takes {self.traits.max_upload}")
        data = await off_loop(self._disk, message.file.read_bytes)
        if await self._is_encrypted(route):
            hidden, secrets = await off_loop(self._disk, encrypt_file, data)
            address = await self._api.upload(hidden, "", "application/octet-stream")
            uploaded: dict[str, Any] = {"file": {**secrets, "url": address}}
        else:
            uploaded = {"url": await self._api.upload(data, name, media_type)}
        caption = written(message.text) if message.text else {"body": name}
        return {
            "msgtype": KINDS.get(media_type.partition("/")[0], "m.file"),
            **caption,
            "filename": name,
            **uploaded,
            "info": {"mimetype": media_type, "size": len(data)},
            "m.mentions": {},
        }

    async def _say(self, route: Route, content: Mapping[str, object], key: str) -> str:
        """Send a message or an edit, encrypted where the room is."""
        room, kind = route.place.chat, "m.room.message"
        if self._encryption is not None and await self._is_encrypted(route):
            members = (await self._rooms.facts(room)).joined
            content = await self._encryption.encrypted(room, members, kind, content)
            kind = "m.room.encrypted"
        return await self._put(route, kind, content, key)

    async def _is_encrypted(self, route: Route) -> bool:
        return self._encryption is not None and (await self._rooms.facts(route.place.chat)).is_encrypted

    async def _put(self, route: Route, kind: str, content: Mapping[str, object], key: str) -> str:
        answer = await self._api.call("PUT", path_of("rooms", route.place.chat, "send", kind, key), content)
        return told(answer, "event_id")

    async def _type(self, route: Route, typing: Mapping[str, object]) -> None:
        await self._api.call("PUT", path_of("rooms", route.place.chat, "typing", self._me), typing)

    async def _older(self, room: str, before: str, wanted: Event) -> AsyncGenerator[Event, None]:
        """The newest events of a room, or those before one and perhaps itself, newest first; not for ever."""
        params = {"dir": "b", "limit": str(PAGE), "filter": json.dumps(wanted)}
        if before:
            around = await self._api.call(
                "GET", path_of("rooms", room, "context", before), params={"limit": "1"}
            )
            params["from"] = text(around, "end")
        for _ in range(MOST_PAGES):
            page = await self._api.call("GET", path_of("rooms", room, "messages"), params=params)
            for event in events_in(page, "chunk"):
                yield event
            params["from"] = text(page, "end")
            if not params["from"]:
                return

    async def _known(self, *path: str) -> Event:
        try:
            return await self._api.call("GET", path_of(*path))
        except SendRefused:
            return {}


def _content(message: Outgoing) -> dict[str, Any]:
    # Clients notify nobody of a notice. The empty mentions say that a name in the text calls nobody.
    kind = "m.notice" if message.is_silent else "m.text"
    return {"msgtype": kind, **written(message.text), "m.mentions": {}}


def _relation(route: Route) -> dict[str, Any]:
    if not route.place.thread:
        return {"m.relates_to": {"m.in_reply_to": {"event_id": route.reply_to}}} if route.reply_to else {}
    return {
        "m.relates_to": {
            "rel_type": "m.thread",
            "event_id": route.place.thread,
            "is_falling_back": not route.reply_to,
            "m.in_reply_to": {"event_id": route.reply_to or route.place.thread},
        }
    }


def _remove(file: Path) -> None:
    file.unlink(missing_ok=True)


def _is_in(event: Event, place: Place) -> bool:
    thread = relation(event).thread
    return thread == place.thread or (bool(place.thread) and text(event, "event_id") == place.thread)


def _transaction(key: str) -> str:
    """The id of a call by which the server knows its repeat."""
    return sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:40]
