"""Errors of programs that use Holdfast as a library. Each message says what is right."""

from holdfast.core.errors.groups import InvalidInput, ModelFailure, Refused


class AgentNotStarted(Refused, AttributeError):
    """The agent has to open its model, store or memory first, and that happens in `async with`."""

    def __init__(self) -> None:
        super().__init__(
            "this agent is not started yet: write `async with Agent(…) as agent:` and call it inside, "
            "or call agent.run_sync(…) where there is no async code"
        )


class AgentClosed(Refused):
    """The agent was closed and runs no more turns. What it had completed is on record."""

    def __init__(self) -> None:
        super().__init__(
            "this agent is closed, and nothing was stored. Make a new Agent with the same store and session: "
            "it goes on where this one ended"
        )


class OtherLoop(Refused):
    """The agent was started on one event loop and called on another."""

    def __init__(self, what: str = "agent") -> None:
        super().__init__(
            f"this {what} was started on another event loop, and its connections belong to that loop; "
            "nothing was stored. Call it where it was started, or make one for each loop"
        )


class ModelNameInvalid(InvalidInput):
    """A text does not name a model, or an object is none."""


class ResultTypeInvalid(InvalidInput):
    """`result_type` is neither a pydantic model nor a JSON schema of an object."""


class ResultDoesNotFit(ModelFailure):
    """The model was asked again, and its answer still did not fit `result_type`. The turn is on record."""

    def __init__(self, form: str, attempts: int, problem: str) -> None:
        super().__init__(
            f"the model gave no {form}: {attempts} of its answers did not fit, the last because {problem}. "
            "The turn is on record as failed"
        )
        self.attempts = attempts
        self.problem = problem
