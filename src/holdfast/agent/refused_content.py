"""What a model refuses is set aside, so that one message never blocks its conversation.

When a server refuses a request for what it holds, the same request is tried without the likely causes:
pictures that no model has answered yet, then messages of earlier turns that failed, then every picture, at
last the summary that the session begins with. What the request was taken without is set aside: a note on
record says so, and models see a text in its place. The record keeps the original. The words of the running
turn are never left out: it fails with the reason.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

from holdfast.agent.summary_text import summary_of, without_summary
from holdfast.core.content import omitted_part
from holdfast.core.contract import Message
from holdfast.core.errors import ContextTooLong, ModelFailure
from holdfast.core.messages import HOLDFAST_KEY, holdfast_data

if TYPE_CHECKING:
    from holdfast.agent.transcript import Transcript

Scope = Literal["earlier", "unanswered", "all"]
"""Which messages: of earlier turns that failed, since the last answer of a model, or all."""

KEY = "set_aside"
WHY = "the model refused it"
INSTEAD = f"[what stood here was left out: {WHY}]"
CUT_OFF = "[cut off here"
LONGEST_REASON = 300
LONG_TEXT = 10_000


@dataclass(frozen=True, slots=True)
class Omission:
    """What is left out of what models see, known by digests and by where it stands."""

    digests: frozenset[str]
    """Digests of pictures and whole messages. A whole message is left out only if its earlier turn failed."""
    pictures: Scope = "all"
    summary: bool = False
    """Whether the summary is left out that the session begins with."""

    def applied(self, messages: Sequence[Message], digests: "Digests | None" = None) -> list[Message]:
        """The messages as models see them."""
        spans, made = spans_of(messages), digests or Digests()
        seen = list(messages)
        for place in spans[self.pictures]:
            seen[place] = self._without_pictures(seen[place], made)
        for place in spans["earlier"]:
            content = messages[place].get("content")
            if content and made.of(content) in self.digests:
                seen[place] = self._without_words(messages[place])
        return [without_summary(seen[0], INSTEAD), *seen[1:]] if self.summary and seen else seen

    @staticmethod
    def _without_words(message: Message) -> Message:
        # The server's own words are not repeated to the model: they may quote what it refused. The summary is
        # no part of the turn whose words are joined to it.
        summary = summary_of(message)
        instead = f"{summary}\n\n{INSTEAD}" if summary else INSTEAD
        return message if message.get("content") == summary else {**message, "content": instead}

    def _without_pictures(self, message: Message, made: "Digests") -> Message:
        content: Any = message.get("content")
        if not isinstance(content, list):
            return message
        kept = [
            omitted_part(each, WHY) if each.get("type") != "text" and made.of(each) in self.digests else each
            for each in content
        ]
        return message if kept == content else {**message, "content": kept}


class Digests:
    """The digests of a conversation's contents, each made once: a picture may have many megabytes."""

    def __init__(self) -> None:
        self._made: dict[int, tuple[object, str]] = {}  # by identity; the content is kept, and so is its id

    def of(self, content: object) -> str:
        if id(content) not in self._made:
            self._made[id(content)] = content, digest(content)
        return self._made[id(content)][1]

    def of_pictures(self, messages: Iterable[Message]) -> frozenset[str]:
        contents = (each.get("content") for each in messages if each["role"] != "assistant")
        parts = chain.from_iterable(each for each in contents if isinstance(each, list))
        return frozenset(self.of(part) for part in parts if part.get("type") != "text")


class Refusals:
    """The refusals of one step: what is left out of the transcript for now, and what is tried next."""

    def __init__(self, transcript: "Transcript") -> None:
        self._transcript = transcript
        self._before: list[Message] | None = None  # the transcript, while something is left out of it
        self._attempts: Iterator[tuple[Omission, list[Message]]] | None = None
        self._omission: Omission | None = None
        self.first: ModelFailure | None = None
        """Why the request was refused as it was."""

    def leave_out(self, failure: ModelFailure) -> bool:
        """Leave out the next likely cause, until `restore`; False when there is none."""
        self.restore()
        before = list(self._transcript.messages)
        if self._attempts is None:
            self.first = failure
            self._attempts = attempts(before, pictures_only=isinstance(failure, ContextTooLong))
        self._omission, seen = next(self._attempts, (None, before))
        if self._omission is not None:
            self._before = before
            self._transcript.replace_all(seen)
        return self._omission is not None

    def restore(self) -> None:
        """Let the transcript be as it was."""
        if self._before is not None:
            self._transcript.replace_all(self._before)
            self._before = None

    def forget(self) -> None:
        """The conversation is another now: nothing was left out of it."""
        self._before = self._attempts = self._omission = None

    def note(self) -> Message | None:
        """What goes on record once the request was taken; None when nothing was left out."""
        omission = self._omission
        if omission is None:
            return None
        left = {"digests": sorted(omission.digests), "pictures": omission.pictures, "reason": self._reason}
        kept = {KEY: {**left, "summary": True} if omission.summary else left, "superseded": self._reason}
        said = (
            f"[the model refused a part of what was said: {self._reason}. It is left out of what models see "
            "from here on, and stays on record]"
        )
        return cast("Message", {"role": "assistant", "content": said, HOLDFAST_KEY: kept})

    @property
    def _reason(self) -> str:
        words = str(self.first)
        return words if len(words) <= LONGEST_REASON else f"{words[:LONGEST_REASON]}…"


def attempts(
    messages: Sequence[Message], *, pictures_only: bool = False
) -> Iterator[tuple[Omission, list[Message]]]:
    """What to leave out, the least first, and the messages without it; each is another request."""
    made, tried = Digests(), [list(messages)]
    for omission in _wanted(messages, made, pictures_only=pictures_only):
        if (seen := omission.applied(messages, made)) not in tried:
            tried.append(seen)
            yield omission, seen


def _wanted(messages: Sequence[Message], made: Digests, *, pictures_only: bool) -> Iterator[Omission]:
    spans = spans_of(messages)
    earlier = [messages[place] for place in spans["earlier"]]
    words: frozenset[str] = frozenset()
    if not pictures_only:
        yield Omission(made.of_pictures(earlier), "earlier")
    yield Omission(made.of_pictures(messages[place] for place in spans["unanswered"]), "unanswered")
    if not pictures_only:
        words = frozenset(made.of(each["content"]) for each in earlier if each.get("content"))
        yield Omission(words, "earlier")
    every = made.of_pictures(messages)
    yield Omission(every)
    if not pictures_only:
        yield Omission(every | words)
        yield Omission(every | words, summary=True)


def omission_of(message: Message) -> Omission | None:
    """What a stored note says was set aside; None for any other message."""
    note = holdfast_data(message).get(KEY)
    if not isinstance(note, dict) or not isinstance(note.get("digests"), list):
        return None
    pictures: Any = note.get("pictures")
    return Omission(
        frozenset(each for each in note["digests"] if isinstance(each, str)),
        pictures if pictures in get_args(Scope) else "all",
        summary=note.get("summary") is True,
    )


def digest(content: object) -> str:
    """Knows a picture, or a whole content, again: in a copy, a branch and an import too."""
    return hashlib.sha256(json.dumps(_short(content), sort_keys=True).encode()).hexdigest()


def _short(content: object) -> object:
    """The content with digests in the places of long texts: writing these as JSON takes far longer."""
    if isinstance(content, str) and len(content) > LONG_TEXT:
        return {"sha256": hashlib.sha256(content.encode(errors="surrogatepass")).hexdigest()}
    if isinstance(content, dict):
        return {name: _short(value) for name, value in content.items()}
    return [_short(each) for each in content] if isinstance(content, list) else content


def spans_of(messages: Sequence[Message]) -> dict[Scope, range]:
    """The places of each scope. What stands before the last answer of a model was taken by one."""
    start = _last_answer(messages) + 1
    said = (at for at in range(len(messages) - 1, start - 1, -1) if messages[at]["role"] == "assistant")
    return {
        "earlier": range(start, next(said, start - 1) + 1),
        "unanswered": range(start, len(messages)),
        "all": range(len(messages)),
    }


def _last_answer(messages: Sequence[Message]) -> int:
    for place in range(len(messages) - 1, -1, -1):
        message = messages[place]
        if message["role"] == "assistant" and not is_cut_off(message):
            return place
    return -1


def is_cut_off(message: Message) -> bool:
    """Whether a turn ended with this before its model had said a word."""
    return message["role"] == "assistant" and str(message.get("content") or "").startswith(CUT_OFF)
