"""Errors of language models."""

from holdfast.core.errors.groups import ModelFailure, Retryable


class ModelUnreachable(ModelFailure, Retryable):
    """The server did not answer: it is down, overloaded, or took too long."""

    def __init__(self, model: str, problem: str, retry_after: float | None = None) -> None:
        super().__init__(f"{model} did not answer: {problem}")
        self.model = model
        self.problem = problem
        self.retry_after = retry_after


class ModelBusy(ModelUnreachable):
    """The server asked for fewer requests."""


class StreamBroken(ModelUnreachable):
    """The answer stopped in the middle. The received part is kept."""


class AnswerEmpty(ModelUnreachable):
    """The model ended its answer without text and without a tool call."""


class KeyRejected(ModelFailure):
    def __init__(self, model: str, problem: str) -> None:
        super().__init__(f"the key for {model} was rejected: {problem}. Set a valid one and try again.")
        self.model = model


class KeyForbidden(KeyRejected):
    """The key is valid, but it does not allow this request."""


class NoCredit(ModelFailure):
    def __init__(self, model: str, problem: str) -> None:
        super().__init__(f"the account for {model} has no credit left: {problem}")
        self.model = model


class ModelUnknown(ModelFailure):
    def __init__(self, model: str, problem: str) -> None:
        super().__init__(f"the server knows no model {model!r}: {problem}. Choose one that it offers.")
        self.model = model


class ContextTooLong(ModelFailure):
    """The conversation doesn't fit the model's window."""

    def __init__(self, model: str, problem: str) -> None:
        super().__init__(f"the conversation is too long for {model}: {problem}")
        self.model = model


class RequestRejected(ModelFailure):
    """The server refused the request, and would refuse it again."""

    def __init__(self, model: str, problem: str) -> None:
        super().__init__(f"{model} refused the request: {problem}")
        self.model = model


class ContentRejected(RequestRejected):
    """The server refused some content of the request. Without that content it may accept the request."""


class ModelMissing(ModelFailure):
    """There is no model, or nothing to run it with. The message says what to install or set."""


class ModelFileInvalid(ModelFailure):
    """A file of weights can't be used."""

    def __init__(self, file: str, problem: str) -> None:
        super().__init__(
            f"the model file {file} can't be used: {problem}. It was left as it is. "
            "Fetch it again, or name another file."
        )
        self.file = file
