"""What a person chose: for one conversation, for a folder of the list, and prompts of their own.

A choice belongs to the whole conversation, by its first session. An empty text means the usual: the model and
the workspace of the settings, and no folder.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from holdfast.core.errors import InvalidInput
from holdfast.sessions.codec import UNSTORABLE, is_storable
from holdfast.sessions.contract import NOTHING_CHOSEN, ConversationChoice, Engine, Transaction
from holdfast.sessions.operations import operation
from holdfast.sessions.transcripts import root_of

MAX_NAME = 100
MAX_PATH = 4096
MAX_PROMPT = 100_000


@dataclass(frozen=True, slots=True)
class ListFolder:
    """A folder of the list, where its conversations work, and how many there are."""

    name: str
    workspace: str
    created: int
    conversations: int


@dataclass(frozen=True, slots=True)
class OwnPrompt:
    """A text that a person sends often."""

    name: str
    text: str
    changed: int


class Choices:
    """Reads and changes what a person chose."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def get(self, session_id: str) -> ConversationChoice:
        """What was chosen for the conversation of a session."""
        return self._engine.read(lambda tx: choice_of(tx, root_of(tx, session_id)))

    def choose(
        self,
        session_id: str,
        *,
        model: str | None = None,
        workspace: str | None = None,
        folder: str | None = None,
    ) -> ConversationChoice:
        """Change what is given; None leaves a choice as it is. A folder that is not there is made."""
        return self._engine.write(choose_for_conversation(session_id, model, workspace, folder))

    def folders(self) -> Sequence[ListFolder]:
        return self._engine.read(lambda tx: [ListFolder(*row) for row in tx.queries.list_folders()])

    def folder(self, name: str) -> ListFolder | None:
        def work(tx: Transaction) -> ListFolder | None:
            row = tx.queries.get_folder(name=name)
            return None if row is None else ListFolder(*row)

        return self._engine.read(work)

    def put_folder(self, name: str, workspace: str = "") -> None:
        """Make a folder, or change where its new conversations work."""
        self._engine.write(put_folder(name, workspace))

    def rename_folder(self, name: str, new_name: str) -> bool:
        """Rename a folder; its conversations stay in it. False: there is none of that name."""
        return self._engine.write(rename_folder(name, new_name))

    def remove_folder(self, name: str) -> bool:
        """Remove a folder; its conversations stay, in no folder."""
        return self._engine.write(remove_folder(name))

    def prompts(self) -> Sequence[OwnPrompt]:
        return self._engine.read(lambda tx: [OwnPrompt(*row) for row in tx.queries.own_prompts()])

    def put_prompt(self, name: str, text: str) -> None:
        self._engine.write(put_own_prompt(name, text))

    def remove_prompt(self, name: str) -> bool:
        return self._engine.write(remove_own_prompt(name))


def choice_of(tx: Transaction, root: str) -> ConversationChoice:
    row = tx.queries.get_choice(root=root)
    return NOTHING_CHOSEN if row is None else ConversationChoice(*row)


def checked_choice(choice: ConversationChoice) -> ConversationChoice:
    """The choice without blanks around it; raises `InvalidInput` for what can't be one."""
    return ConversationChoice(
        _checked("the name of a model", choice.model, MAX_PATH),
        _checked("a workspace", choice.workspace, MAX_PATH),
        _checked("the name of a folder", choice.folder, MAX_NAME),
    )


@operation
def choose_for_conversation(
    session_id: str, model: str | None, workspace: str | None, folder: str | None
) -> Callable[[Transaction], ConversationChoice]:
    """Change what is chosen for a conversation."""
    given = {"model": model, "workspace": workspace, "folder": folder}
    changes = {name: value for name, value in given.items() if value is not None}
    checked_choice(ConversationChoice(**changes))

    def work(tx: Transaction) -> ConversationChoice:
        root = root_of(tx, session_id)
        chosen = checked_choice(replace(choice_of(tx, root), **changes))
        if chosen.folder:
            tx.queries.ensure_folder(name=chosen.folder)
        tx.queries.put_choice(root=root, model=chosen.model, workspace=chosen.workspace, folder=chosen.folder)
        return chosen

    return work


@operation
def put_folder(name: str, workspace: str) -> Callable[[Transaction], None]:
    """Make a folder of the list, or change its workspace."""
    named = _named("the name of a folder", name, MAX_NAME)
    place = _checked("a workspace", workspace, MAX_PATH)
    return lambda tx: tx.queries.put_folder(name=named, workspace=place)


@operation
def rename_folder(name: str, new_name: str) -> Callable[[Transaction], bool]:
    """Rename a folder of the list; its conversations stay in it."""
    named = _named("the name of a folder", new_name, MAX_NAME)

    def work(tx: Transaction) -> bool:
        if tx.queries.get_folder(name=name) is None:
            return False
        if named != name and tx.queries.get_folder(name=named) is not None:
            raise InvalidInput(f"there is a folder {named!r} already; nothing was changed")
        tx.queries.rename_folder(name=name, new_name=named)
        tx.queries.refile_conversations(name=name, new_name=named)
        return True

    return work


@operation
def remove_folder(name: str) -> Callable[[Transaction], bool]:
    """Remove a folder of the list; its conversations stay."""

    def work(tx: Transaction) -> bool:
        tx.queries.empty_folder(name=name)
        return bool(tx.queries.remove_folder(name=name))

    return work


@operation
def put_own_prompt(name: str, text: str) -> Callable[[Transaction], None]:
    """Keep a text that a person sends often."""
    named = _named("the name of a prompt", name, MAX_NAME)
    if not text.strip() or len(text) > MAX_PROMPT or not is_storable(text):
        raise InvalidInput(f"a prompt is a text of 1 to {MAX_PROMPT} characters; {UNSTORABLE}")
    return lambda tx: tx.queries.put_own_prompt(name=named, text=text)


@operation
def remove_own_prompt(name: str) -> Callable[[Transaction], bool]:
    """Remove such a text."""
    return lambda tx: bool(tx.queries.remove_own_prompt(name=name))


def _named(what: str, text: str, most: int) -> str:
    named = _checked(what, text, most)
    if not named:
        raise InvalidInput(f"{what} is a text of 1 to {most} characters, not an empty one")
    return named


def _checked(what: str, text: str, most: int) -> str:
    plain = text.strip()
    if len(plain) > most or not is_storable(plain) or any(sign in plain for sign in "\r\n\0"):
        raise InvalidInput(f"{what} is one line of at most {most} characters; nothing was changed")
    return plain
