"""`TitleMaker`: asks a model what a conversation is about, in a few words."""

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.agent.answer import whole_answer
from holdfast.agent.usage_meter import usage_entry
from holdfast.core.contract import Message
from holdfast.core.messages import fenced, storable, text_of
from holdfast.models.contract import Model, ModelRequest
from holdfast.models.switchable_model import borrow_for_turn
from holdfast.sessions.usage import UsageEntry

PURPOSE = "title"
LONGEST_TITLE = 80
READ_CHARACTERS = 1_500
"""How much of a message is read for a title."""
ANSWER_TOKENS = 400
"""More than a title needs: a model that thinks does so first."""
AROUND = " \t\"'`*#“”„«»."
SYSTEM = (
    "You name conversations. Answer with a title of two to six words, in the language of the conversation. "
    "Write nothing else: no quotes, no full stop."
)


@dataclass(frozen=True, slots=True)
class MadeTitle:
    """A title, empty where nothing usable came, and what it cost."""

    text: str
    usage: UsageEntry


class TitleMaker:
    """Makes titles with the model in use."""

    def __init__(self, model: Model) -> None:
        self._model = model

    @property
    def is_able(self) -> bool:
        """Whether the model can be trusted with it; else a title is cut from the first message."""
        return self._model.traits.summarises

    async def title(self, messages: Sequence[Message]) -> MadeTitle | None:
        """A title for a conversation that begins like this; None when nobody has spoken."""
        said = [(each["role"], text_of(each).strip()) for each in messages]
        opening = [(role, text) for role, text in said if role in ("user", "assistant") and text][:2]
        if not opening:
            return None
        model = borrow_for_turn(self._model)
        begun = "\n\n".join(f"{role}: {text[:READ_CHARACTERS]}" for role, text in opening)
        request = ModelRequest(
            SYSTEM,
            [{"role": "user", "content": f"{fenced('conversation', begun)}\n\nThe title:"}],
            max_output_tokens=ANSWER_TOKENS,
        )
        answer = await whole_answer(model, request)
        usage = answer.finished.usage if answer.finished else None
        return MadeTitle(usable_title(answer.text), usage_entry(PURPOSE, model.traits, usage))


def usable_title(answer: str) -> str:
    """The title in a model's answer; empty when there is none, as when it answered with a text."""
    lines = [line.strip() for line in storable(answer).splitlines() if line.strip()]
    plain = lines[0].replace("**", "").replace("`", "").removeprefix("Title:") if lines else ""
    title = " ".join(plain.split()).strip(AROUND)
    return title if len(title) <= LONGEST_TITLE else ""
