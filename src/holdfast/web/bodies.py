"""What clients send, typed. Unknown keys are refused, so that a misspelt one is not ignored."""

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from holdfast.core.contract import Message
from holdfast.web.views import Mode

Text = Annotated[str, Field(max_length=20_000_000)]
SessionId = Annotated[str, Field(min_length=1, max_length=200)]
Title = Annotated[str, Field(max_length=1000)]


class Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class SessionChanges(Body):
    title: Title | None = None
    pinned: bool | None = None
    archived: bool | None = None


class ImageUrl(BaseModel):
    model_config = ConfigDict(extra="allow")

    url: str


class Part(BaseModel):
    """A part of a message in OpenAI's shape: a text, or an image as a data URL."""

    model_config = ConfigDict(extra="allow")

    type: str = Field(min_length=1)
    text: str | None = None
    image_url: ImageUrl | None = None

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if self.type == "text" and self.text is None:
            raise ValueError("a part of type text has a text")
        if self.type == "image_url" and self.image_url is None:
            raise ValueError("a part of type image_url has an image_url")
        return self

    def plain(self) -> dict[str, Any]:
        return self.model_dump(exclude_none=True)


class NewMessage(Body):
    """A message: a text, or content in parts."""

    text: Text | None = None
    content: list[Part] | None = None
    mode: Mode = Field(default="queue", description="what becomes of it while a turn runs")
    key: Annotated[str, Field(min_length=1, max_length=200)] | None = Field(
        default=None, description="the same key again stores nothing new, and answers the same"
    )

    def as_message(self) -> Message:
        parts = [each.plain() for each in self.content or ()]
        if parts and self.text:
            parts.insert(0, {"type": "text", "text": self.text})
        return {"role": "user", "content": parts or self.text or ""}


class NewSession(Body):
    prev_session_id: SessionId | None = Field(
        default=None, description="the session left behind: its memory is committed, in the background"
    )
    title: Title | None = None
    message: NewMessage | None = Field(
        default=None, description="what it begins with; stored with it, in one step"
    )


class Interruption(Body):
    text: Text = Field(default="", description="becomes the next message")


class Decision(Body):
    decision: Literal["yes", "no", "always"]
    text: Annotated[str, Field(max_length=10_000)] = Field(
        default="", description="with always: the pattern that is allowed from now on"
    )


class Answer(Body):
    text: Text


class Changed(Body):
    text: Text
    mode: Mode | None = None


class Place(Body):
    before: Annotated[int, Field(ge=0, le=2**53)] = Field(description="the seq of the first message left out")


class MaybePlace(Body):
    before: Annotated[int, Field(ge=0, le=2**53)] | None = None
    exact: bool = Field(default=False, description="from the very session named, also an ended one")


class Focus(Body):
    focus: Annotated[str, Field(max_length=10_000)] = Field(
        default="", description="what the summary should keep above all"
    )
