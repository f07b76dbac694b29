"""The bodies of requests. Unknown keys are refused, so a misspelt key is never ignored."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from holdfast.core.contract import Message
from holdfast.sessions.contract import ConversationChoice
from holdfast.web.views import Mode

Text = Annotated[str, Field(max_length=20_000_000)]
SessionId = Annotated[str, Field(min_length=1, max_length=200)]
Title = Annotated[str, Field(max_length=1000)]

Key = Annotated[str, Field(min_length=1, max_length=200)]
ModelName = Annotated[str, Field(max_length=1000)]
FolderPath = Annotated[str, Field(max_length=4096)]
FolderName = Annotated[str, Field(max_length=100)]


class StrictBody(BaseModel):
    model_config = ConfigDict(extra="forbid")


class LenientBody(BaseModel):
    """For bodies in OpenAI's shapes, to which clients add keys of their own."""

    model_config = ConfigDict(extra="allow")


class SessionChangesBody(StrictBody):
    title: Title | None = None
    pinned: bool | None = None
    archived: bool | None = None
    tool_profile: Annotated[str, Field(max_length=100)] | None = Field(
        default=None, description="one of `tool_profiles` of /api/status; empty: by the model"
    )
    model: ModelName | None = Field(
        default=None, description="as in POST /api/sessions; empty: the usual one"
    )
    workspace: FolderPath | None = Field(default=None, description="the same; empty: the usual one")
    folder: FolderName | None = Field(default=None, description="the same; empty: none")


class ImageUrl(LenientBody):
    url: str


class FilePart(LenientBody):
    filename: str
    file_data: str = Field(description="a data URL in base64")


class Part(LenientBody):
    """A part of a message in OpenAI's shape: a text, a picture as a data URL or an address, or a file."""

    type: str = Field(description="text, image_url or file")
    text: str | None = None
    image_url: ImageUrl | None = None
    file: FilePart | None = Field(
        default=None, description="a PDF, an Office document, a text or a picture; its text is stored"
    )


class MessageBody(StrictBody):
    """A message: a text, or content in parts."""

    text: Text | None = None
    content: list[Part] | None = None
    mode: Mode = Field(default="queue", description="what happens to it while a turn runs")
    key: Key | None = Field(
        default=None, description="a second request with the same key stores nothing and gets the same answer"
    )

    def as_message(self) -> Message:
        parts = [each.model_dump(exclude_unset=True) for each in self.content or ()]
        if parts and self.text:
            parts.insert(0, {"type": "text", "text": self.text})
        return {"role": "user", "content": parts or self.text or ""}


class NewSessionBody(StrictBody):
    prev_session_id: SessionId | None = Field(
        default=None,
        description="the session that this one follows: its memory is committed in the background",
    )
    title: Title | None = None
    key: Key | None = Field(
        default=None,
        description="a second request with the same key begins no other session; a message may have its own",
    )
    message: MessageBody | None = Field(
        default=None, description="the first message; stored together with the session"
    )
    model: ModelName = Field(
        default="", description="the model that answers here, as NAME or PROVIDER:NAME; empty: the usual one"
    )
    workspace: FolderPath = Field(
        default="", description="the folder that tools work in here, by its whole path; empty: the usual one"
    )
    folder: FolderName = Field(
        default="", description="the folder of the list that it lies in; one that is not there is made"
    )

    @property
    def choice(self) -> ConversationChoice:
        return ConversationChoice(self.model, self.workspace, self.folder)


class InterruptBody(StrictBody):
    text: Text = Field(default="", description="becomes the next message")
    key: Key | None = Field(
        default=None, description="with a text: a second request with the same key stores nothing"
    )
    turn_id: SessionId | None = Field(default=None, description="without a text: stop only this turn")


class DecisionBody(StrictBody):
    decision: Literal["yes", "no", "always"]
    text: Annotated[str, Field(max_length=10_000)] = Field(
        default="", description="with always: the pattern that is allowed from now on"
    )


class AnswerBody(StrictBody):
    text: Text
    key: Key | None = Field(
        default=None,
        description="a second request with the same key changes nothing and gets the same answer",
    )


class EditMessageBody(StrictBody):
    text: Text
    mode: Mode | None = None


class KeyBody(StrictBody):
    key: Key | None = Field(
        default=None,
        description="a second request with the same key makes nothing new and gets the same answer",
    )


class TruncateBody(KeyBody):
    before: Annotated[int, Field(ge=0, le=2**53)] = Field(description="the seq of the first message left out")


class UndoBody(KeyBody):
    before: Annotated[int, Field(ge=0, le=2**53)] | None = Field(
        default=None, description="the seq of the first message that is taken back; empty: the last one sent"
    )
    files: bool = Field(default=False, description="also take back what the turns did to files")


class UndoFilesBody(StrictBody):
    turn_id: SessionId | None = Field(default=None, description="only what this turn did; empty: all turns")


class BranchBody(KeyBody):
    before: Annotated[int, Field(ge=0, le=2**53)] | None = None
    exact: bool = Field(default=False, description="from exactly this session, even if it has ended")


class CompactBody(StrictBody):
    focus: Annotated[str, Field(max_length=10_000)] = Field(
        default="", description="what the summary should keep above all"
    )
