"""`BatchProvider`: the base of providers that take completed turns in batches, each with its key."""

import json
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any, ClassVar

from pydantic import ValidationError

from holdfast.core.contract import Clock, Message
from holdfast.core.distribution import install_command
from holdfast.core.errors import InvalidInput, ProviderInvalid
from holdfast.memory.contract import CompletedTurn, MemoryProvider
from holdfast.providers.tool_arguments import ToolArguments, function_schemas, validation_message


class BatchProvider(MemoryProvider):
    """Takes turns through `sync_turns`; `sync_turn` calls it with a batch of one."""

    tools: ClassVar[Mapping[str, type[ToolArguments]]] = {}
    package: ClassVar[str] = ""
    """The package that must be installed, if any; an extra with the name of the provider installs it."""
    _clock: Clock
    _closed = False

    @property
    def closed(self) -> bool:
        """Whether `shutdown` has begun."""
        return self._closed

    def is_available(self) -> bool:
        if self.package and find_spec(self.package) is None:
            command = install_command(self.name)
            raise ProviderInvalid(self.name, f"{self.package} is not installed; run: {command}")
        return True

    @abstractmethod
    def sync_turns(self, turns: Sequence[CompletedTurn]) -> None:
        """Store the turns, each once by its key; raise when that failed."""

    def sync_turn(
        self,
        user_content: str,
        assistant_content: str,
        *,
        session_id: str = "",
        messages: list[Message] | None = None,
    ) -> None:
        """Store one turn without a key; its key is made of its text and its position in the session."""
        if self.closed:
            return
        turn = CompletedTurn.without_key(
            user_content,
            assistant_content,
            session_id=session_id,
            messages=messages,
            completed=self._clock.now(),
        )
        self.sync_turns([turn])

    def get_tool_schemas(self) -> list[dict[str, Any]]:
        return function_schemas(self.tools)

    def handle_tool_call(self, tool_name: str, args: dict[str, Any], **kwargs: Any) -> str:  # noqa: ANN401
        """Run a tool. Invalid arguments are returned as an error text for the model."""
        if tool_name not in self.tools:
            return super().handle_tool_call(tool_name, args, **kwargs)
        try:
            answer = self.tools[tool_name].model_validate(args).run(self)
        except ValidationError as cause:
            answer = {"error": validation_message(cause)}
        except InvalidInput as cause:
            answer = {"error": str(cause)}
        return answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
