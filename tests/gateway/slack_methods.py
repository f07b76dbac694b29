"""The methods of Slack's Web API that the adapter uses, on a `Workspace`, with Slack's limits and errors."""

import json
import re
from collections.abc import Callable, Sequence

from tests.gateway.slack_workspace import BOT, BOT_USER, TEAM, Json, Refusal, Workspace, is_set


class WebMethods:
    """Each method takes its arguments and returns what stands in the answer beside `ok`."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self.origin = ""
        self.elsewhere: dict[str, str] = {}
        """Files that another server keeps, with their addresses."""
        self.table: dict[str, Callable[[Json], Json]] = {
            "auth.test": lambda _: {"user_id": BOT_USER, "user": "holdfast", "bot_id": BOT, "team_id": TEAM},
            "chat.delete": self._delete,
            "chat.postEphemeral": self._post_ephemeral,
            "chat.postMessage": self._post,
            "chat.update": self._update,
            "conversations.history": workspace.history,
            "conversations.info": self._channel_info,
            "conversations.replies": workspace.replies,
            "files.completeUploadExternal": self._complete_upload,
            "files.getUploadURLExternal": self._begin_upload,
            "files.info": self._file_info,
            "reactions.add": self._react,
            "users.conversations": self._list_channels,
            "users.info": self._user_info,
        }

    def _post(self, arguments: Json) -> Json:
        channel = self.workspace.channel(arguments["channel"])
        if channel.archived:
            raise Refusal("is_archived")
        more: Json = {
            name: arguments[name] for name in ("blocks", "attachments", "metadata") if name in arguments
        }
        if "thread_ts" in arguments:
            if arguments["thread_ts"] not in channel.messages:
                raise Refusal("invalid_thread_ts")
            more["thread_ts"] = arguments["thread_ts"]
        self._check(arguments, 40_000)
        message = self.workspace.add(channel, BOT_USER, arguments["text"], bot_id=BOT, **more)
        return {"channel": channel.id, "ts": message["ts"], "message": message}

    def _update(self, arguments: Json) -> Json:
        channel = self.workspace.channel(arguments["channel"])
        message = channel.message(str(arguments["ts"]))
        if message["user"] != BOT_USER:
            raise Refusal("cant_update_message")
        self._check(arguments, 4_000)
        message["text"] = arguments["text"]
        message.pop("blocks", None)
        for name in ("blocks", "attachments", "metadata"):
            if name in arguments:
                message[name] = arguments[name]
        for key in filter(None, str(arguments.get("file_ids", "")).split(",")):
            if key not in self.workspace.files or not self.workspace.files[key].is_complete:
                raise Refusal("file_not_found")
            if all(each["id"] != key for each in message.setdefault("files", [])):
                message["files"].append(self.file_object(key))
        return {"channel": channel.id, "ts": message["ts"], "message": message}

    def _check(self, arguments: Json, most: int) -> None:
        if not arguments.get("text"):
            raise Refusal("no_text")
        if len(arguments["text"]) > most:
            raise Refusal("msg_too_long")
        _check_blocks(arguments.get("blocks", []))
        for attachment in arguments.get("attachments", []):
            _check_blocks(attachment.get("blocks", []))

    def _delete(self, arguments: Json) -> Json:
        channel = self.workspace.channel(arguments["channel"])
        message = channel.message(str(arguments["ts"]))
        del channel.messages[message["ts"]]
        return {"channel": channel.id, "ts": message["ts"], "message": message}

    def _post_ephemeral(self, arguments: Json) -> Json:
        if arguments["user"] not in self.workspace.channel(arguments["channel"]).members:
            raise Refusal("user_not_in_channel")
        self.workspace.ephemeral.append(arguments)
        return {"message_ts": self.workspace.ts()}

    def _react(self, arguments: Json) -> Json:
        message = self.workspace.channel(arguments["channel"]).message(str(arguments["timestamp"]))
        _check_name(arguments["name"])
        reactions = message.setdefault("reactions", [])
        if arguments["name"] in reactions:
            raise Refusal("already_reacted")
        reactions.append(arguments["name"])
        return {}

    def _channel_info(self, arguments: Json) -> Json:
        channel = self.workspace.channel(arguments["channel"])
        return {"channel": {"id": channel.id, "name": channel.name, "is_im": channel.type == "im"}}

    def _list_channels(self, arguments: Json) -> Json:
        found = [
            {"id": channel.id, "name": channel.name}
            for channel in self.workspace.channels.values()
            if BOT_USER in channel.members
            and not (channel.archived and is_set(arguments.get("exclude_archived")))
        ]
        return {"channels": found, "response_metadata": {"next_cursor": ""}}

    def _user_info(self, arguments: Json) -> Json:
        for name, key in self.workspace.people.items():
            if key == arguments["user"]:
                return {"user": {"id": key, "name": name, "profile": {"display_name": name}}}
        raise Refusal("user_not_found")

    # Files.

    def file_object(self, key: str) -> Json:
        file = self.workspace.files[key]
        return {
            "id": key,
            "name": file.name,
            "mimetype": "text/plain" if file.name.endswith(".txt") else "application/octet-stream",
            "size": len(file.content or b""),
            "url_private_download": self.elsewhere.get(key, f"{self.origin}/files/{key}"),
        }

    def _begin_upload(self, arguments: Json) -> Json:
        file = self.workspace.new_file(str(arguments["filename"]))
        return {"file_id": file.id, "upload_url": f"{self.origin}/upload/{file.id}"}

    def _complete_upload(self, arguments: Json) -> Json:
        files = arguments["files"]
        for each in json.loads(files) if isinstance(files, str) else files:
            file = self.workspace.files.get(each["id"])
            if file is None or file.content is None:
                raise Refusal("file_not_found")
            file.is_complete = True
        return {"files": files}

    def _file_info(self, arguments: Json) -> Json:
        if arguments["file"] not in self.workspace.files:
            raise Refusal("file_not_found")
        return {"file": self.file_object(arguments["file"])}


def _check_blocks(blocks: Sequence[Json]) -> None:
    """Slack's limits for the blocks that are used here."""
    for block in blocks:
        if block["type"] == "section" and not 1 <= len(block["text"]["text"]) <= 3_000:
            raise Refusal("invalid_blocks")
        for element in block.get("elements", []):
            if len(element["value"]) > 2_000 or not 1 <= len(element["text"]["text"]) <= 75:
                raise Refusal("invalid_blocks")


def _check_name(emoji: str) -> None:
    if not re.fullmatch(r"[a-z0-9_+-]+", emoji):
        raise Refusal("invalid_name")
