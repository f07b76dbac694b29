"""`ChoiceAdmin`: what a person chooses for conversations (model, workspace, folder), and their prompts."""

import asyncio
import logging
import math
from collections.abc import Collection
from dataclasses import replace

from holdfast.core.errors import HoldfastError, InvalidInput
from holdfast.host.contract import HostParts
from holdfast.host.conversations import Conversations
from holdfast.host.store_calls import StoreCalls
from holdfast.sessions.choices import ListFolder, OwnPrompt, checked_choice, choose_for_conversation
from holdfast.sessions.contract import ConversationChoice

logger = logging.getLogger(__name__)

MODELS_SAID = 10
LISTED_SECONDS = 60.0
"""How old the list may be by which requests of programs are answered."""


class ChoiceAdmin:
    """Checks each choice before it is stored. A choice counts from the conversation's next turn on."""

    def __init__(self, parts: HostParts, call: StoreCalls, conversations: Conversations) -> None:
        self._parts = parts
        self._choices = parts.db.choices
        self._call = call
        self._conversations = conversations
        self._listing = asyncio.Lock()
        self._listed: list[str] = []
        self._listed_until = -math.inf

    async def checked(self, choice: ConversationChoice) -> ConversationChoice:
        """The choice as it is stored; raises why it can't be one. The model is open from here on."""
        plain = checked_choice(choice)
        if plain.workspace and (problem := await self._call(self._parts.workspace_problem, plain.workspace)):
            raise InvalidInput(f"{problem}. Nothing was changed.")
        if plain.model:
            if self._parts.models is None:
                raise InvalidInput("this host has one model; it can't be changed")
            await self._parts.models.check(plain.model)
        return plain

    async def require_offered(self, model: str, allowed: Collection[str] = ()) -> None:
        """Raise unless others than the owner may choose it: one of `allowed`, else a model that is listed.

        The owner may name any model, a file of this machine among them.
        """
        found = [] if self._parts.models is None else (await self._parts.models.names())[1]
        offered = allowed or found
        if model not in offered:
            names = ", ".join(list(offered)[:MODELS_SAID]) or "none"
            raise InvalidInput(
                f"the model {model!r:.100} is not among those that can be chosen here: {names}"
            )

    async def offered(self, allowed: Collection[str] = ()) -> list[str]:
        """The names that a request may choose: `allowed`, else the listed ones, as of a minute ago."""
        if allowed or self._parts.models is None:
            return list(allowed) if self._parts.models else []
        async with self._listing:
            if self._parts.clock.monotonic() >= self._listed_until:
                try:
                    self._listed = (await self._parts.models.names())[1]
                except HoldfastError as cause:
                    logger.info("models.not_listed", extra={"cause": repr(cause)})
                    self._listed = []
                self._listed_until = self._parts.clock.monotonic() + LISTED_SECONDS
        return self._listed

    async def of_conversation(self, session_id: str) -> ConversationChoice:
        """What is chosen for a conversation."""
        return await self._call(self._choices.get, session_id)

    async def choose(
        self,
        session_id: str,
        *,
        model: str | None = None,
        workspace: str | None = None,
        folder: str | None = None,
    ) -> ConversationChoice:
        """Change what is given; None leaves it as it is, and an empty text means the usual."""
        await self.checked(ConversationChoice(model or "", workspace or "", folder or ""))
        conversation = await self._conversations.open(session_id)
        chosen = await self._call.run(choose_for_conversation, session_id, model, workspace, folder)
        conversation.choice = chosen
        self._conversations.changes.touched(conversation.root_id)
        return chosen

    async def of_folder(self, choice: ConversationChoice) -> ConversationChoice:
        """A new conversation works where its folder says, unless another workspace was chosen."""
        if not choice.folder or choice.workspace:
            return choice
        folder = await self._call(self._choices.folder, choice.folder)
        return replace(choice, workspace=folder.workspace) if folder else choice

    async def folders(self) -> list[ListFolder]:
        return list(await self._call(self._choices.folders))

    async def put_folder(self, name: str, workspace: str) -> None:
        """Make a folder of the list, or change where its new conversations work."""
        await self.checked(ConversationChoice(workspace=workspace))
        await self._call(self._choices.put_folder, name, workspace)

    async def rename_folder(self, name: str, new_name: str) -> bool:
        return await self._call(self._choices.rename_folder, name, new_name)

    async def remove_folder(self, name: str) -> bool:
        return await self._call(self._choices.remove_folder, name)

    async def prompts(self) -> list[OwnPrompt]:
        return list(await self._call(self._choices.prompts))

    async def put_prompt(self, name: str, text: str) -> None:
        await self._call(self._choices.put_prompt, name, text)

    async def remove_prompt(self, name: str) -> bool:
        return await self._call(self._choices.remove_prompt, name)
