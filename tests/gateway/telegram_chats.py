"""The chats of the Telegram server: who is in them, what was said, and what the bot may do there."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from holdfast.gateway.adapters.telegram_markup import utf16_size
from tests.gateway.telegram_html import BadHtml, text_of

MAX_TEXT = 4096
MAX_CAPTION = 1024
MAX_DOWNLOAD = 20 * 1024 * 1024
MAX_CALLBACK = 64
MAX_NOTE = 200
TYPING_SECONDS = 5.0
REACTIONS = {"👍", "👎", "❤", "🔥", "👀", "🎉", "🤔", "👌"}
NOT_MODIFIED = (
    "Bad Request: message is not modified: specified new message content and reply markup are exactly "
    "the same as a current content and reply markup of the message"
)
KEPT_BY_EDITS = {
    "message_id",
    "date",
    "chat",
    "from",
    "message_thread_id",
    "is_topic_message",
    "reply_to_message",
}
UPGRADED = "Bad Request: group chat was upgraded to a supergroup chat"
PRESS_TOO_OLD = "Bad Request: query is too old and response timeout expired or query ID is invalid"

Parameters = dict[str, Any]


class ApiError(Exception):
    """An answer that is not ok."""

    def __init__(
        self, status: int, text: str, parameters: Mapping[str, Any] | None = None, *, is_json: bool = True
    ) -> None:
        super().__init__(text)
        self.is_json = is_json
        self.status = status
        self.body = {"ok": False, "error_code": status, "description": text}
        if parameters:
            self.body["parameters"] = dict(parameters)


@dataclass(slots=True)
class Chat:
    """A chat with its messages, in the form in which the Bot API shows them."""

    id: int
    type: str
    title: str = ""
    is_forum: bool = False
    has_bot: bool = True
    moved_to: int = 0
    """The supergroup that it became."""
    messages: dict[int, dict[str, Any]] = field(default_factory=dict)
    content: dict[int, bytes] = field(default_factory=dict)
    sources: dict[int, str] = field(default_factory=dict)
    """The bot's texts as they came, with their tags."""
    reactions: dict[int, list[str]] = field(default_factory=dict)
    last_id: int = 0
    typing: dict[str, float] = field(default_factory=dict)
    """By thread: until when "typing" is shown."""

    def shown(self) -> dict[str, Any]:
        name = {"first_name": self.title} if self.type == "private" else {"title": self.title}
        forum = {"is_forum": True} if self.is_forum else {}
        return {"id": self.id, "type": self.type, **name, **forum}

    def add(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        self.last_id += 1
        message = {
            "message_id": self.last_id,
            "date": int(time.time()),
            "chat": self.shown(),
            **fields,
        }
        self.messages[self.last_id] = message
        return message


class Chats:
    """All chats, files and presses, and the methods of the Bot API on them."""

    def __init__(self) -> None:
        self.bot = {
            "id": 4242,
            "is_bot": True,
            "first_name": "Holdfast",
            "username": "Holdfast_Bot",
            "can_join_groups": True,
            "can_read_all_group_messages": True,
            "supports_inline_queries": False,
        }
        self.chats: dict[int, Chat] = {}
        self.files: dict[str, bytes] = {}
        self.files_by_path: dict[str, bytes] = {}
        self.says_size = True
        """Whether `getFile` gives the size, which is optional."""
        self.open_presses: set[str] = set()
        self.notes: dict[str, str] = {}
        self.commands: list[dict[str, str]] = []

    def keep_file(self, name: str, content: bytes) -> dict[str, Any]:
        file_id = f"file-{len(self.files) + 1}"
        self.files[file_id] = content
        self.files_by_path[f"documents/{file_id}"] = content
        return {
            "file_id": file_id,
            "file_unique_id": f"u-{file_id}",
            "file_name": name,
            "file_size": len(content),
        }

    def send_message(self, parameters: Parameters) -> dict[str, Any]:
        text = _text(parameters, "text", MAX_TEXT, "message is too long")
        if not text:
            raise ApiError(400, "Bad Request: message text is empty")
        return self._send(parameters, {"text": text})

    def send_document(self, parameters: Parameters) -> dict[str, Any]:
        return self._send_file(parameters, "document")

    def send_voice(self, parameters: Parameters) -> dict[str, Any]:
        return self._send_file(parameters, "voice")

    def send_photo(self, parameters: Parameters) -> dict[str, Any]:
        return self._send_file(parameters, "photo")

    def edit_text(self, parameters: Parameters) -> dict[str, Any]:
        text = _text(parameters, "text", MAX_TEXT, "message is too long")
        return self._edit(parameters, {"text": text})

    def edit_media(self, parameters: Parameters) -> dict[str, Any]:
        media = parameters["media"]
        name, content = parameters[media["media"].removeprefix("attach://")]
        shown = self._media(media["type"], name, content)
        caption = _text(media, "caption", MAX_CAPTION, "message caption is too long")
        return self._edit(parameters, {**shown, "caption": caption}, content)

    def delete_message(self, parameters: Parameters) -> bool:
        chat, number = self._chat(parameters), int(parameters["message_id"])
        if number not in chat.messages:
            raise ApiError(400, "Bad Request: message to delete not found")
        del chat.messages[number]
        return True

    def react(self, parameters: Parameters) -> bool:
        chat, number = self._chat(parameters), int(parameters["message_id"])
        if number not in chat.messages:
            raise ApiError(400, "Bad Request: message to react not found")
        signs = [reaction["emoji"] for reaction in parameters["reaction"]]
        if not set(signs) <= REACTIONS:
            raise ApiError(400, "Bad Request: REACTION_INVALID")
        chat.reactions[number] = signs
        return True

    def chat_action(self, parameters: Parameters) -> bool:
        chat = self._chat(parameters)
        chat.typing[str(parameters.get("message_thread_id", ""))] = time.monotonic() + TYPING_SECONDS
        return True

    def answer_callback(self, parameters: Parameters) -> bool:
        query, note = parameters["callback_query_id"], parameters.get("text", "")
        if query not in self.open_presses:
            raise ApiError(400, PRESS_TOO_OLD)
        if utf16_size(note) > MAX_NOTE:
            raise ApiError(400, "Bad Request: MESSAGE_TOO_LONG")
        self.notes[query] = note
        return True

    def get_file(self, parameters: Parameters) -> dict[str, Any]:
        content = self.files.get(parameters["file_id"])
        if content is None:
            raise ApiError(400, "Bad Request: wrong file_id or the file is temporarily unavailable")
        if len(content) > MAX_DOWNLOAD:
            raise ApiError(400, "Bad Request: file is too big")
        file_id = parameters["file_id"]
        size = {"file_size": len(content)} if self.says_size else {}
        found = {"file_id": file_id, "file_unique_id": f"u-{file_id}", "file_path": f"documents/{file_id}"}
        return {**found, **size}

    def set_commands(self, parameters: Parameters) -> bool:
        self.commands = parameters["commands"]
        return True

    def _chat(self, parameters: Parameters) -> Chat:
        chat = self.chats.get(int(parameters["chat_id"]))
        if chat is None:
            raise ApiError(400, "Bad Request: chat not found")
        if chat.moved_to:
            raise ApiError(400, UPGRADED, {"migrate_to_chat_id": chat.moved_to})
        if not chat.has_bot:
            raise ApiError(403, "Forbidden: bot was kicked from the group chat")
        return chat

    def _send(
        self, parameters: Parameters, shown: Mapping[str, Any], content: bytes | None = None
    ) -> dict[str, Any]:
        chat = self._chat(parameters)
        fields = {"from": self.bot, **shown, **_markup(parameters)}
        thread = parameters.get("message_thread_id")
        if thread is not None:
            if int(thread) not in chat.messages:
                raise ApiError(400, "Bad Request: message thread not found")
            fields |= {"message_thread_id": int(thread), "is_topic_message": True}
        answered = parameters.get("reply_parameters")
        if answered is not None:
            original = chat.messages.get(answered["message_id"])
            if original is None and not answered.get("allow_sending_without_reply"):
                raise ApiError(400, "Bad Request: message to be replied not found")
            if original is not None:
                fields["reply_to_message"] = {k: v for k, v in original.items() if k != "reply_to_message"}
        message = chat.add(fields)
        chat.sources[message["message_id"]] = parameters.get("text", "")
        if content is not None:
            chat.content[message["message_id"]] = content
        chat.typing.pop(str(thread or ""), None)
        return message

    def _send_file(self, parameters: Parameters, kind: str) -> dict[str, Any]:
        name, content = parameters[parameters[kind].removeprefix("attach://")]
        caption = _text(parameters, "caption", MAX_CAPTION, "message caption is too long")
        return self._send(parameters, {**self._media(kind, name, content), "caption": caption}, content)

    def _media(self, kind: str, name: str, content: bytes) -> dict[str, Any]:
        file = self.keep_file(name, content)
        if kind == "voice":
            return {"voice": {**file, "duration": 1}}
        if kind == "photo":
            if not content.startswith((b"\x89PNG", b"\xff\xd8")):
                raise ApiError(400, "Bad Request: IMAGE_PROCESS_FAILED")
            return {"photo": [{**file, "width": 10, "height": 10}]}
        return {"document": file}

    def _edit(
        self, parameters: Parameters, shown: Mapping[str, Any], content: bytes | None = None
    ) -> dict[str, Any]:
        chat, number = self._chat(parameters), int(parameters["message_id"])
        message = chat.messages.get(number)
        if message is None:
            raise ApiError(400, "Bad Request: message to edit not found")
        if message["from"] != self.bot:
            raise ApiError(400, "Bad Request: message can't be edited")
        kept = {name: value for name, value in message.items() if name in KEPT_BY_EDITS}
        edited = {**kept, **shown, **_markup(parameters)}
        is_same_text = chat.sources.get(number) == parameters.get("text")
        if is_same_text and edited == {name: value for name, value in message.items() if name != "edit_date"}:
            raise ApiError(400, NOT_MODIFIED)
        chat.sources[number] = parameters.get("text", "")
        chat.messages[number] = {**edited, "edit_date": int(time.time())}
        if content is not None:
            chat.content[number] = content
        return chat.messages[number]


def _text(parameters: Mapping[str, Any], name: str, most: int, too_long: str) -> str:
    text = str(parameters.get(name, ""))
    if parameters.get("parse_mode") == "HTML":
        try:
            text = text_of(text)
        except BadHtml as cause:
            raise ApiError(400, f"Bad Request: can't parse entities: {cause}") from cause
    if utf16_size(text) > most:
        raise ApiError(400, f"Bad Request: {too_long}")
    return text.strip()


def _markup(parameters: Mapping[str, Any]) -> dict[str, Any]:
    markup = parameters.get("reply_markup")
    if markup is None:
        return {}
    for row in markup["inline_keyboard"]:
        for button in row:
            if not 1 <= len(button["callback_data"].encode()) <= MAX_CALLBACK:
                raise ApiError(400, "Bad Request: BUTTON_DATA_INVALID")
    return {"reply_markup": markup}
