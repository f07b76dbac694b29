"""Why a message is refused before it is stored."""

from holdfast.core.errors.groups import InvalidInput


class MessageInvalid(InvalidInput):
    """A message has content that can't be sent to a model. Nothing was stored."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"{problem}. The message was not stored.")
        self.problem = problem


class MessageTooLong(InvalidInput):
    """The message alone does not fit the model's window. Nothing was stored."""

    def __init__(self, model: str, tokens: int, window: int) -> None:
        super().__init__(
            f"the message is too long for {model}: it takes at least {tokens:,} tokens, and the model's "
            f"window holds {window:,}. The message was not stored. Shorten it, or put it into a file."
        )
        self.model = model
