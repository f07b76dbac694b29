"""`ChatPlatform` over a real Synapse: the people are accounts, and a proxy of ours breaks the bot's calls."""

import html
import json
import re
import uuid
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import httpx2

from holdfast.gateway.adapters.matrix import MatrixAdapter, MatrixCredentials
from holdfast.gateway.adapters.matrix_api import path_of
from holdfast.gateway.contract import Place
from holdfast.testing.chat_platform import Fault, SeenMessage
from tests.gateway.fault_proxy import FaultProxy
from tests.gateway.synapse_server import SynapseServer

MEDIA = "/_matrix/client/v1/media/download/"


class MatrixPlatform:
    """Each has a bot and people of its own; the server is shared."""

    def __init__(self, server: SynapseServer) -> None:
        self.server = server
        self.bot = server.register("bot")
        self.people: dict[str, MatrixCredentials] = {}
        self.proxy = FaultProxy(server.url)
        self._http = httpx2.AsyncClient(timeout=60, trust_env=False)
        self._stack = AsyncExitStack()
        self._direct: dict[str, Place] = {}
        self._witness: dict[str, str] = {}  # a person in the room, by room

    async def start(self) -> None:
        await self._stack.enter_async_context(self.proxy)
        await self._stack.enter_async_context(self._http)

    async def close(self) -> None:
        await self._stack.aclose()

    def adapter(self) -> MatrixAdapter:
        return MatrixAdapter(replace(self.bot, homeserver=self.proxy.url))

    def person(self, name: str) -> MatrixCredentials:
        if name not in self.people:
            self.people[name] = self.server.register(name)
        return self.people[name]

    async def direct(self, person: str) -> Place:
        if person not in self._direct:
            self._direct[person] = await self.room(person, [], is_direct=True)
            await self.ask(self.bot, "POST", path_of("join", self._direct[person].chat), json={})
        return self._direct[person]

    async def group(self, people: Sequence[str]) -> Place:
        told = {"preset": "private_chat", "name": f"room of {', '.join(people)}"}
        place = await self.room(people[0], people[1:], **told)
        for member in [*(self.person(name) for name in people[1:]), self.bot]:
            await self.ask(member, "POST", path_of("join", place.chat), json={})
        return place

    async def room(self, owner: str, others: Sequence[str], **told: object) -> Place:
        """A room to which the others and the bot are invited."""
        invited = [*(self.person(name).user_id for name in others), self.bot.user_id]
        asked = {"preset": "trusted_private_chat", "invite": invited, **told}
        made = await self.ask(self.person(owner), "POST", path_of("createRoom"), json=asked)
        self._witness[made["room_id"]] = owner
        return Place(made["room_id"])

    async def say(
        self, place: Place, person: str, text: str, *, mention: bool = False, reply_to: str = ""
    ) -> str:
        content: dict[str, Any] = {"msgtype": "m.text", "body": text, "m.mentions": {}}
        if mention:
            content |= {"body": f"bot: {text}", "m.mentions": {"user_ids": [self.bot.user_id]}}
        if reply_to:
            content["m.relates_to"] = {"m.in_reply_to": {"event_id": reply_to}}
        if place.thread:
            answered = {"m.in_reply_to": {"event_id": reply_to or place.thread}}
            relates = {"rel_type": "m.thread", "event_id": place.thread, "is_falling_back": not reply_to}
            content["m.relates_to"] = {**relates, **answered}
        return await self.post(place, person, content)

    async def post(
        self, place: Place, person: str, content: Mapping[str, object], kind: str = "m.room.message"
    ) -> str:
        path = path_of("rooms", place.chat, "send", kind, uuid.uuid4().hex)
        return str((await self.ask(self.person(person), "PUT", path, json=content))["event_id"])

    async def send_file(self, place: Place, person: str, name: str, content: bytes) -> str:
        made = await self.ask(
            self.person(person), "POST", f"/_matrix/media/v3/upload?filename={name}", content=content
        )
        info = {"size": len(content), "mimetype": "application/octet-stream"}
        told = {"msgtype": "m.file", "body": name, "url": made["content_uri"], "info": info}
        return await self.post(place, person, told)

    async def press(self, place: Place, person: str, message_id: str, value: str) -> None:
        raise AssertionError("Matrix has no buttons")

    async def messages(self, place: Place) -> list[SeenMessage]:
        events = await self.events(place)
        edits = {}
        for event in events:
            relates = event["content"].get("m.relates_to", {})
            if relates.get("rel_type") == "m.replace":
                edits[relates["event_id"]] = event["content"]["m.new_content"]
        seen = [
            await self._seen(event, edits.get(event["event_id"], event["content"]))
            for event in events
            if event["content"].get("msgtype")
            and event["content"].get("m.relates_to", {}).get("rel_type") != "m.replace"
        ]
        return [each for each in seen if each.thread == place.thread or not place.thread]

    async def events(self, place: Place, kind: str = "m.room.message") -> list[dict[str, Any]]:
        """The events of a room as a person in it gets them, oldest first."""
        query = {"dir": "f", "limit": "1000", "filter": json.dumps({"types": [kind]})}
        path = path_of("rooms", place.chat, "messages")
        return list((await self.ask(self._in(place), "GET", path, params=query))["chunk"])

    async def fail(self, fault: Fault, times: int = 1) -> None:
        self.proxy.faults.extend([fault] * times)

    async def kick(self) -> None:
        self.proxy.kick()

    async def deliver_again(self) -> None:
        self.proxy.deliver_again()

    def is_typing(self, place: Place) -> bool:
        nothing = {"not_types": ["*"]}
        wanted = {
            "presence": nothing,
            "account_data": nothing,
            "room": {"rooms": [place.chat], "state": nothing, "timeline": nothing, "account_data": nothing},
        }
        answer = self.server.ask(
            "GET",
            path_of("sync"),
            params={"timeout": "0", "filter": json.dumps(wanted)},
            headers=_signed(self._in(place)),
        )
        update = answer.get("rooms", {}).get("join", {}).get(place.chat, {})
        typing = update.get("ephemeral", {}).get("events", [])
        return any(self.bot.user_id in each["content"].get("user_ids", []) for each in typing)

    async def ask(self, who: MatrixCredentials, method: str, path: str, **sent: Any) -> Any:  # noqa: ANN401 - JSON
        answer = await self._http.request(method, self.server.url + path, headers=_signed(who), **sent)
        assert answer.is_success, answer.text
        return answer.json()

    async def _seen(self, event: Mapping[str, Any], content: Mapping[str, Any]) -> SeenMessage:
        relates = event["content"].get("m.relates_to", {})
        in_thread = relates.get("rel_type") == "m.thread"
        answered = relates.get("m.in_reply_to", {}).get("event_id", "")
        return SeenMessage(
            id=event["event_id"],
            text=_plain(content),
            by_bot=event["sender"] == self.bot.user_id,
            thread=relates["event_id"] if in_thread else "",
            reply_to="" if relates.get("is_falling_back") else answered,
            file=await self._file(event) if "url" in content else None,
        )

    async def _file(self, event: Mapping[str, Any]) -> bytes:
        address = f"{self.server.url}{MEDIA}{event['content']['url'].removeprefix('mxc://')}"
        answer = await self._http.get(address, headers=_signed(self._in(Place(event["room_id"]))))
        assert answer.is_success, answer.text
        return answer.content

    def _in(self, place: Place) -> MatrixCredentials:
        return self.people[self._witness[place.chat]]


def _signed(who: MatrixCredentials) -> dict[str, str]:
    return {"authorization": f"Bearer {who.token.reveal()}"}


def _plain(content: Mapping[str, Any]) -> str:
    if "url" in content and content.get("filename", content["body"]) == content["body"]:
        return ""
    shown = str(content.get("formatted_body", ""))
    if not shown:
        return str(content["body"])
    return html.unescape(re.sub(r"<[^>]+>", "", shown.replace("</p>\n<p>", "\n\n"))).strip()
