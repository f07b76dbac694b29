"""The adapter of the chat platform in memory: the bot's side of `MemoryChatServer`."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path

from holdfast.gateway.contract import (
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
    TakenElsewhere,
    Unreachable,
)
from holdfast.testing.memory_chats import BOT, MemoryChatServer, MemoryMessage, Receiver

WHOLE_ACCOUNT = ""
"""The name of the one cursor: the sequence id of the last event."""


class MemoryAdapter:
    """One sign-in of the bot. After `close` every call fails."""

    def __init__(self, server: MemoryChatServer) -> None:
        self.traits = server.traits
        self._server = server
        self._closed = False
        self._receivers: set[Receiver] = set()

    async def connect(self) -> Identity:
        self._check_open()
        if not self._server.accepts_token:
            raise SignInRefused("the platform takes this token no more")
        return Identity(BOT.id, BOT.name, "Say something to the bot in memory.")

    async def receive(self, cursors: Mapping[str, str]) -> AsyncGenerator[Batch, None]:
        await self.connect()
        server = self._server
        position = int(cursors[WHOLE_ACCOUNT]) if WHOLE_ACCOUNT in cursors else len(server.events)
        if server.options.redelivers and cursors:
            position = min(position, server.acknowledged)
        receiver = server.open_receiver()
        self._receivers.add(receiver)
        try:
            end = len(server.events)
            while True:
                page = server.events[position : position + server.options.page]
                position += len(page)
                is_end = position >= end
                yield self._batch(page, position, caught_up=is_end)
                self._check_connected(receiver)
                if is_end:
                    break
                end = len(server.events)  # what came meanwhile keeps its place behind what was missed
            while True:
                while position >= len(server.events) and not receiver.again:
                    await receiver.woken.wait()
                    receiver.woken.clear()
                    self._check_connected(receiver)
                again, receiver.again = receiver.again, []
                new = server.events[position : position + server.options.page]
                position += len(new)
                yield self._batch([*again, *new], position)
                self._check_connected(receiver)
        finally:
            self._receivers.discard(receiver)
            if server.receiver is receiver:
                server.receiver = None

    def _batch(self, events: Sequence[Incoming], position: int, *, caught_up: bool = True) -> Batch:
        server = self._server
        server.delivered = max(server.delivered, position)

        async def acknowledge() -> None:
            server.acknowledged = max(server.acknowledged, position)
            server.changed()

        return Batch(tuple(events), {WHOLE_ACCOUNT: str(position)}, acknowledge, caught_up)

    def _check_connected(self, receiver: Receiver) -> None:
        if receiver.state == "replaced":
            raise TakenElsewhere("another receiver uses this token")
        if receiver.state == "broken" or self._closed:
            raise Unreachable("the connection broke")

    async def send(self, route: Route, message: Outgoing, key: str) -> str:
        self._check_open()
        content = None if message.file is None else _read(message.file, self.traits.max_upload)
        return self._server.send(route, message, key, content)

    async def find_sent(self, route: Route, key: str) -> str | None:
        self._check_open()
        return self._server.find_sent(route, key)

    async def edit(self, route: Route, message_id: str, message: Outgoing) -> None:
        self._check_open()
        self._server.edit(route, message_id, message)

    async def delete(self, route: Route, message_id: str) -> None:
        self._check_open()
        self._server.delete(route, message_id)

    async def react(self, route: Route, message_id: str, emoji: str) -> None:
        self._check_open()
        self._server.react(route, message_id, emoji)

    async def show_typing(self, route: Route) -> None:
        self._check_open()
        self._server.show_typing(route)

    async def stop_typing(self, route: Route) -> None:
        self._check_open()
        self._server.stop_typing(route)

    async def confirm_press(self, press: Incoming, note: str) -> None:
        self._check_open()
        self._server.call("press", press.place)
        self._server.press_notes.append((press.press_token, note))
        self._server.changed()

    async def download(self, file: ChatFile, target: Path, most: int) -> None:
        self._check_open()
        content = self._server.files.get(file.ref)
        if content is None:
            raise SendRefused(f"the platform has no file {file.ref}")
        if len(content) > most:
            raise FileTooLarge(f"{file.name} has more than {most} bytes")
        _write(target, content)

    async def history(self, place: Place, before: str, most: int) -> Sequence[Incoming]:
        self._check_open()
        if not self.traits.has_history:
            return []
        chat = self._server.call("history", place)
        there = [each for each in chat.messages if each.thread == place.thread]
        ids = [each.id for each in there]
        end = ids.index(before) if before in ids else len(ids)
        events = {each.message_id: each for each in self._server.events if each.kind == "message"}
        return [
            events.get(each.id) or self._own(place, each, is_direct=chat.is_direct)
            for each in there[max(0, end - most) : end]
        ]

    def _own(self, place: Place, message: MemoryMessage, *, is_direct: bool) -> Incoming:
        """A message of the bot, as history shows it. It was never an event."""
        sent = int((self._server.clock.now() - self._server.clock.monotonic() + message.sent) * 1_000_000)
        return Incoming(
            id=message.id,
            place=place,
            sender=message.sender,
            sent=sent,
            text=message.text,
            is_direct=is_direct,
            reply_to=message.reply_to,
            message_id=message.id,
        )

    async def set_commands(self, commands: Sequence[Command]) -> None:
        self._check_open()
        self._server.commands = list(commands)

    def measure(self, markdown: str) -> int:
        return self._server.options.measure(markdown)

    async def close(self) -> None:
        self._closed = True
        for each in self._receivers:
            each.wake()

    def _check_open(self) -> None:
        if self._closed:
            raise Unreachable("the adapter is closed")


def _read(file: Path, most: int) -> bytes:
    if file.stat().st_size > most:
        raise FileTooLarge(f"{file.name} has more than {most} bytes")
    return file.read_bytes()


def _write(file: Path, content: bytes) -> None:
    file.write_bytes(content)
