"""Adapters for the platform in memory that each break one promise, with the check that must notice it."""

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from itertools import count
from pathlib import Path

from holdfast.gateway.contract import (
    AdapterTraits,
    Batch,
    ChatFile,
    Command,
    FileTooLarge,
    Identity,
    Incoming,
    NotTaken,
    Outgoing,
    Place,
    Route,
    Sender,
    SendRefused,
    SlowDown,
    Unreachable,
)
from holdfast.testing.memory_adapter import MemoryAdapter
from holdfast.testing.memory_chats import MemoryChatServer, MemoryOptions
from holdfast.testing.memory_platform import MemoryPlatform

MakeAdapter = Callable[[MemoryChatServer], MemoryAdapter]
TRAITS = AdapterTraits(300, "key", key_seconds=60.0, typing_seconds=0.2, max_upload=20_000, has_history=True)

LEFT_OPEN: list[int] = []


class BrokenPlatform(MemoryPlatform):
    def __init__(self, make: MakeAdapter) -> None:
        super().__init__(TRAITS, options=MemoryOptions(page=4, slow_seconds=0.01))
        self._make = make

    async def close(self) -> None:
        await super().close()
        while LEFT_OPEN:
            os.close(LEFT_OPEN.pop())

    def adapter(self) -> MemoryAdapter:
        return self._make(self.server)


class Altering(MemoryAdapter):
    """Changes each event before it passes it on."""

    def alter(self, event: Incoming) -> Incoming:
        raise NotImplementedError

    async def receive(self, cursors: Mapping[str, str]) -> AsyncGenerator[Batch, None]:
        async with aclosing(super().receive(cursors)) as batches:
            async for batch in batches:
                yield replace(batch, events=tuple(self.alter(each) for each in batch.events))


class Anonymous(MemoryAdapter):
    async def connect(self) -> Identity:
        await super().connect()
        return Identity(str(id(self)), "Bot")


class ReplaysThePast(MemoryAdapter):
    def receive(self, cursors: Mapping[str, str]) -> AsyncGenerator[Batch, None]:
        return super().receive(cursors or {"": "0"})


class Reordering(MemoryAdapter):
    """Collects live events by twos and gives the second first."""

    async def receive(self, cursors: Mapping[str, str]) -> AsyncGenerator[Batch, None]:
        waiting: list[Incoming] = []
        async with aclosing(super().receive(cursors)) as batches:
            async for batch in batches:
                waiting += batch.events
                ready = waiting if len(waiting) > 3 or not waiting else []
                yield replace(batch, events=tuple(reversed(ready)))
                if ready:
                    waiting = []


class NamesAreIds(Altering):
    def alter(self, event: Incoming) -> Incoming:
        return replace(event, sender=Sender("somebody", event.sender.name))


class OneId(Altering):
    def alter(self, event: Incoming) -> Incoming:
        return replace(event, id="the event")


class NoMentions(Altering):
    def alter(self, event: Incoming) -> Incoming:
        return replace(event, is_mention=False)


class EverythingDirect(Altering):
    def alter(self, event: Incoming) -> Incoming:
        return replace(event, is_direct=True)


class BotsArePeople(Altering):
    def alter(self, event: Incoming) -> Incoming:
        return replace(event, sender=replace(event.sender, is_bot=False))


class HearsItself(MemoryAdapter):
    async def send(self, route: Route, message: Outgoing, key: str) -> str:
        sent = await super().send(route, message, key)
        event = Incoming("", route.place, Sender("me", "me"), 0, text=message.text)
        stored = self._server.chats[route.place.chat].message(sent)
        assert stored is not None
        self._server.add_event(route.place, event.sender, stored, event)
        return sent


class CatchesUpTooSoon(MemoryAdapter):
    async def receive(self, cursors: Mapping[str, str]) -> AsyncGenerator[Batch, None]:
        async with aclosing(super().receive(cursors)) as batches:
            async for batch in batches:
                yield replace(batch, caught_up=True)


class LiveFirst(MemoryAdapter):
    """Does not hold back what comes during the catch-up."""

    async def receive(self, cursors: Mapping[str, str]) -> AsyncGenerator[Batch, None]:
        end, early = len(self._server.events), False
        async with aclosing(super().receive(cursors)) as batches:
            async for batch in batches:
                yield batch
                if len(self._server.events) > end and not early:
                    early = True
                    yield replace(batch, events=tuple(self._server.events[end:]))


class TrustsTheServer(MemoryAdapter):
    """Goes on behind what was delivered, whether or not it was stored."""

    def receive(self, cursors: Mapping[str, str]) -> AsyncGenerator[Batch, None]:
        return super().receive({"": str(self._server.delivered)} if cursors else {})


class KeepsNoCursor(MemoryAdapter):
    async def receive(self, cursors: Mapping[str, str]) -> AsyncGenerator[Batch, None]:
        async with aclosing(super().receive(cursors)) as batches:
            async for batch in batches:
                yield replace(batch, cursors={})


class NewIds(Altering):
    numbers = count()

    def alter(self, event: Incoming) -> Incoming:
        return replace(event, id=str(next(self.numbers)))


class RaisesOwnErrors(MemoryAdapter):
    async def receive(self, cursors: Mapping[str, str]) -> AsyncGenerator[Batch, None]:
        try:
            async with aclosing(super().receive(cursors)) as batches:
                async for batch in batches:
                    yield batch
        except Unreachable as broken:
            raise ConnectionResetError("by peer") from broken

    async def send(self, route: Route, message: Outgoing, key: str) -> str:
        try:
            return await super().send(route, message, key)
        except (NotTaken, Unreachable) as broken:
            raise ConnectionResetError("by peer") from broken


class OtherIds(MemoryAdapter):
    async def send(self, route: Route, message: Outgoing, key: str) -> str:
        return f"id of {await super().send(route, message, key)}"


class Truncating(MemoryAdapter):
    async def send(self, route: Route, message: Outgoing, key: str) -> str:
        return await super().send(route, replace(message, text=message.text[:200]), key)


class LosesTheReply(MemoryAdapter):
    async def send(self, route: Route, message: Outgoing, key: str) -> str:
        return await super().send(replace(route, reply_to=""), message, key)


class LosesTheThread(MemoryAdapter):
    async def send(self, route: Route, message: Outgoing, key: str) -> str:
        return await super().send(Route(Place(route.place.chat)), message, key)


class EditsBySending(MemoryAdapter):
    async def edit(self, route: Route, message_id: str, message: Outgoing) -> None:
        await super().send(route, message, f"edit of {message_id} {message.text}")


class NotModified(MemoryAdapter):
    async def edit(self, route: Route, message_id: str, message: Outgoing) -> None:
        stored = self._server.chats[route.place.chat].message(message_id)
        if stored is not None and stored.text == message.text:
            raise SendRefused("the message is not modified")
        await super().edit(route, message_id, message)


class DeletesOnce(MemoryAdapter):
    async def delete(self, route: Route, message_id: str) -> None:
        if self._server.chats[route.place.chat].message(message_id) is None:
            raise SendRefused("there is no such message")
        await super().delete(route, message_id)


class ReactsOnce(MemoryAdapter):
    async def react(self, route: Route, message_id: str, emoji: str) -> None:
        stored = self._server.chats[route.place.chat].message(message_id)
        if stored is not None and stored.reactions:
            raise SendRefused("you reacted already")
        await super().react(route, message_id, emoji)


class NoCommands(MemoryAdapter):
    async def set_commands(self, commands: Sequence[Command]) -> None:
        raise NotImplementedError


class NewKeys(MemoryAdapter):
    numbers = count()

    async def send(self, route: Route, message: Outgoing, key: str) -> str:
        return await super().send(route, message, f"{key}-{next(self.numbers)}")


class KeysOfOneRun(MemoryAdapter):
    async def send(self, route: Route, message: Outgoing, key: str) -> str:
        return await super().send(route, message, f"{key}-{id(self)}")

    async def find_sent(self, route: Route, key: str) -> str | None:
        return await super().find_sent(route, f"{key}-{id(self)}")


class Blind(MemoryAdapter):
    async def find_sent(self, route: Route, key: str) -> str | None:
        return None


class NoPause(MemoryAdapter):
    async def send(self, route: Route, message: Outgoing, key: str) -> str:
        try:
            return await super().send(route, message, key)
        except SlowDown as asked:
            raise NotTaken("too many requests") from asked


class SaysNotTaken(MemoryAdapter):
    async def send(self, route: Route, message: Outgoing, key: str) -> str:
        try:
            return await super().send(route, message, key)
        except Unreachable as broken:
            raise NotTaken("the connection broke") from broken


class TriesForEver(MemoryAdapter):
    async def send(self, route: Route, message: Outgoing, key: str) -> str:
        try:
            return await super().send(route, message, key)
        except SendRefused as refused:
            raise NotTaken("try again") from refused


class ShortValues(Altering):
    def alter(self, event: Incoming) -> Incoming:
        return replace(event, text=event.text[:20]) if event.kind == "press" else event


class ConfirmsOnce(MemoryAdapter):
    async def confirm_press(self, press: Incoming, note: str) -> None:
        if press.press_token in [token for token, _ in self._server.press_notes]:
            raise SendRefused("the query is too old")
        await super().confirm_press(press, note)


class KeepsButtons(MemoryAdapter):
    async def edit(self, route: Route, message_id: str, message: Outgoing) -> None:
        await super().edit(route, message_id, message)
        stored = self._server.chats[route.place.chat].message(message_id)
        assert stored is not None
        stored.buttons = (("Yes", "yes:1"),)


class FetchesAnything(MemoryAdapter):
    async def download(self, file: ChatFile, target: Path, most: int) -> None:
        await super().download(file, target, 1_000_000)


class NoCaption(MemoryAdapter):
    async def send(self, route: Route, message: Outgoing, key: str) -> str:
        return await super().send(route, replace(message, text=""), key)


class RefusesLargeFiles(MemoryAdapter):
    async def send(self, route: Route, message: Outgoing, key: str) -> str:
        try:
            return await super().send(route, message, key)
        except FileTooLarge as large:
            raise SendRefused("413") from large


class TypesForEver(MemoryAdapter):
    async def stop_typing(self, route: Route) -> None:
        self._server._typing[route.place] = float("inf")  # noqa: SLF001 - a sign that no one takes away


class NewestFirst(MemoryAdapter):
    async def history(self, place: Place, before: str, most: int) -> Sequence[Incoming]:
        return [*reversed(await super().history(place, before, most))]


class LeavesATask(MemoryAdapter):
    async def close(self) -> None:
        if not self._closed:
            self.pinging = asyncio.create_task(asyncio.Event().wait())
        await super().close()


class LeavesAFile(MemoryAdapter):
    async def close(self) -> None:
        if not self._closed:
            LEFT_OPEN.append(os.dup(0))
        await super().close()


class ClosesOnce(MemoryAdapter):
    async def close(self) -> None:
        if self._closed:
            raise NotTaken("it is closed already")
        await super().close()


BROKEN: list[tuple[MakeAdapter, str, str]] = [
    (Anonymous, "sign-in", "two ids"),
    (ReplaysThePast, "first start", "said before the first start"),
    (Reordering, "order", "received as"),
    (NamesAreIds, "people", "two people have one id"),
    (OneId, "people", "two events of a chat have one id"),
    (NoMentions, "flags", "mention of the bot is not marked"),
    (EverythingDirect, "flags", "a group is marked as direct"),
    (HearsItself, "own messages", "its own message"),
    (BotsArePeople, "bots", "as a person's"),
    (CatchesUpTooSoon, "catch-up", "came before it said"),
    (KeepsNoCursor, "catch-up", "came before it said"),
    (LiveFirst, "held back", "received as"),
    (TrustsTheServer, "not stored", "'not stored' was not received"),
    (KeepsNoCursor, "cursors", "no batch had a cursor"),
    (NewIds, "delivered again", "'one' came as"),
    (RaisesOwnErrors, "kicked", "ConnectionResetError"),
    (OtherIds, "send", "are not those of the messages"),
    (Truncating, "size", "did not arrive whole"),
    (LosesTheReply, "replies", "it answers ''"),
    (LosesTheThread, "threads", "not in the thread"),
    (EditsBySending, "edit", "another message"),
    (NotModified, "edit", "not modified"),
    (DeletesOnce, "delete", "no such message"),
    (ReactsOnce, "react", "reacted already"),
    (NoCommands, "commands", "none of the contract's errors"),
    (NewKeys, "repeat", "find_sent"),
    (Blind, "repeat", "find_sent"),
    (KeysOfOneRun, "repeat after a restart", "after the restart it is"),
    (NoPause, "slow down", "not SlowDown"),
    (RaisesOwnErrors, "drop before", "none of the contract's errors"),
    (SaysNotTaken, "drop after", "may have been taken"),
    (TriesForEver, "refuse", "not SendRefused"),
    (ShortValues, "buttons", "was not received"),
    (ConfirmsOnce, "buttons", "too old"),
    (KeepsButtons, "buttons removed", "still has the buttons"),
    (FetchesAnything, "files received", "not FileTooLarge"),
    (NoCaption, "files sent", "the caption is not there"),
    (RefusesLargeFiles, "files sent", "not FileTooLarge"),
    (TypesForEver, "typing", "still shown"),
    (NewestFirst, "history", "the 3 messages before"),
    (LeavesATask, "close", "tasks are left"),
    (LeavesAFile, "close", "left open"),
    (ClosesOnce, "close", "closed already"),
]
