"""Whatever happens in a turn: every update that an editor gets is one of the protocol's schema."""

import asyncio
import dataclasses
import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, cast, get_type_hints

from acp import schema
from acp.utils import serialize_params
from hypothesis import given
from hypothesis import strategies as st

from holdfast.acp.open_editor import OpenEditor
from holdfast.acp.permissions import approval_options, asked_about, choice_options
from holdfast.acp.replay import Replay
from holdfast.acp.tool_updates import call_id
from holdfast.acp.turn_updates import TurnUpdates, Update
from holdfast.core import events as ev
from holdfast.core.errors import ToolFailed
from holdfast.sessions.contract import StoredMessage
from holdfast.tools.contract import ToolContext
from holdfast.tools.editor import Editor, is_sendable
from holdfast.tools.editor_terminal import EditorTerminals
from holdfast.tools.opened_file import OpenedFiles
from holdfast.tools.output import ResultBudget
from holdfast.tools.resolved_path import resolve_path
from holdfast.tools.sandbox import Launch
from holdfast.tools.text_files import TextFile
from tests.tools.call_fixtures import ScriptedPerson

FOLDER = Path("/project")
IDS = st.sampled_from(["", "a", "b", "\ud800"])
TEXTS = st.one_of(st.text(max_size=40), st.sampled_from(["\ud800", "\0", "half \udfff", ""]))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
NAMES = st.sampled_from(
    ["read_file", "write_file", "edit_file", "run_command", "todo", "delegate", "x\ud800", ""]
)
ITEMS = st.lists(st.fixed_dictionaries({"text": TEXTS, "state": st.sampled_from(["done", "pending", "odd"])}))
ARGUMENTS = st.one_of(
    TEXTS,
    JSON.map(json.dumps),
    st.fixed_dictionaries(
        {"path": TEXTS},
        optional={"text": TEXTS, "old": TEXTS, "new": TEXTS, "start": st.integers(), "items": ITEMS | JSON},
    ).map(json.dumps),
)


def _fields(kind: type[ev.Event]) -> st.SearchStrategy[ev.Event]:
    by_name: dict[str, st.SearchStrategy[Any]] = {
        "name": NAMES,
        "arguments": ARGUMENTS,
        "turn_id": IDS,
        "call_id": IDS,
    }
    by_type: dict[Any, st.SearchStrategy[Any]] = {
        str: TEXTS,
        int: st.integers(-5, 10**9),
        float: st.floats(),
        bool: st.booleans(),
        tuple[str, ...]: st.lists(st.sampled_from(["yes", "always", "no", "\ud800"])).map(tuple),
        tuple[ev.RecalledFrom, ...]: st.just(()),
    }
    hints = get_type_hints(kind)
    given_fields = {
        field.name: by_name.get(field.name, by_type[hints[field.name]]) for field in dataclasses.fields(kind)
    }
    return st.builds(kind, **given_fields)


EVENTS = st.lists(st.one_of([_fields(kind) for kind in ev.KINDS.values()]), max_size=25)


def check(update: Update) -> None:
    """It is sent as valid JSON, and read as the same by the protocol's own models."""
    sent = serialize_params(schema.SessionNotification(session_id="s", update=update))
    line = json.dumps(sent, allow_nan=False, ensure_ascii=False)
    line.encode()  # refuses half a character
    read = schema.SessionNotification.model_validate_json(line)
    assert type(read.update) is type(update)
    # The models of the SDK leave out what they can't read: nothing may be missing.
    assert serialize_params(read) == sent


@given(EVENTS, st.booleans())
def test_every_update_of_every_event_fits(events: list[ev.Event], has_terminal: bool) -> None:
    # With a terminal of the editor's for a call, as a command there has.
    terminals = {call_id("a", "b"): "term-1"} if has_terminal else {}
    updates, begun = TurnUpdates(FOLDER, terminals), set[str]()
    for event in events:
        for update in updates.of(event):
            check(update)
            if isinstance(update, schema.ToolCallStart):
                begun.add(update.tool_call_id)
            elif isinstance(update, schema.ToolCallProgress):
                # An editor can't show the progress of a call that it was never told of.
                assert update.tool_call_id in begun
        for update in updates.missed(getattr(event, "text", "")):
            check(update)
        if isinstance(event, ev.ApprovalAsked | ev.QuestionAsked):
            _check_question(event, updates)


def _check_question(asked: ev.ApprovalAsked | ev.QuestionAsked, updates: TurnUpdates) -> None:
    if isinstance(asked, ev.ApprovalAsked):
        options = approval_options(asked.decisions)
        assert {each.option_id for each in options} == {*asked.decisions} & {"yes", "always", "no"}
    else:
        options = choice_options(asked.choices)
    call = asked_about(asked, updates.call(asked.turn_id, asked.call_id))
    request = schema.RequestPermissionRequest(session_id="s", tool_call=call, options=options)
    line = json.dumps(serialize_params(request), allow_nan=False)
    assert serialize_params(schema.RequestPermissionRequest.model_validate_json(line)) == json.loads(line)


class RecordingClient:
    """Takes down what is sent, as the models of the protocol."""

    MODELS: ClassVar[dict[str, Any]] = {
        "read_text_file": (schema.ReadTextFileRequest, schema.ReadTextFileResponse(content="text")),
        "write_text_file": (schema.WriteTextFileRequest, schema.WriteTextFileResponse()),
        "create_terminal": (
            schema.CreateTerminalRequest,
            schema.CreateTerminalResponse(terminal_id="term-1"),
        ),
        "terminal_output": (
            schema.TerminalOutputRequest,
            schema.TerminalOutputResponse(output="", truncated=False),
        ),
        "wait_for_terminal_exit": (
            schema.WaitForTerminalExitRequest,
            schema.WaitForTerminalExitResponse(exit_code=0),
        ),
        "kill_terminal": (schema.KillTerminalRequest, schema.KillTerminalResponse()),
        "release_terminal": (schema.ReleaseTerminalRequest, schema.ReleaseTerminalResponse()),
    }

    def __init__(self) -> None:
        self.sent: list[str] = []

    def __getattr__(self, method: str) -> Any:  # noqa: ANN401 - any request
        model, answer = self.MODELS[method]

        async def request(**given: object) -> object:
            line = json.dumps(serialize_params(model(**given)), allow_nan=False, ensure_ascii=False)
            line.encode()  # refuses half a character
            assert serialize_params(model.model_validate_json(line)) == json.loads(line)
            self.sent.append(method)
            return answer

        return request


@given(TEXTS, TEXTS, TEXTS, st.dictionaries(TEXTS, TEXTS, max_size=3))
def test_every_request_about_files_and_terminals_fits(
    name: str, text: str, command: str, variables: dict[str, str]
) -> None:
    """What can't be told is not sent: the tools then work on the disk and with their own processes."""
    client = RecordingClient()
    everything = schema.ClientCapabilities(
        fs=schema.FileSystemCapabilities(read_text_file=True, write_text_file=True), terminal=True
    )
    editor = OpenEditor(cast("Any", client), "s", everything)

    async def editor_of(_: ToolContext) -> Editor | None:
        return editor

    async def off_loop(work: Callable[..., Any], *given: object) -> Any:  # noqa: ANN401 - any function's
        return work(*given)

    async def use(folder: Path) -> None:
        context = ToolContext("s", "t", "c", folder, ScriptedPerson(), lambda _: None, off_loop)
        files = OpenedFiles(None, editor_of)
        with suppress(ToolFailed):
            target = resolve_path(folder, f"file {name.replace('/', '-')}")
            await files.read(context, target)
            await files.replace(context, "write_file", target, TextFile(text))
        launch = Launch(("/bin/sh", "-c", command), variables, "/")
        with ResultBudget(folder).spool("s") as spool:
            started = await EditorTerminals(editor_of, {"KEY"}).start(context, launch, spool)
        if started is not None:
            terminal = started.terminal
            assert (await terminal.wait()).code == 0
            for each in (terminal.kill, terminal.output, terminal.release):
                await each()

    with TemporaryDirectory() as folder:
        asyncio.run(use(Path(folder)))
    can_tell = is_sendable(command, *variables, *variables.values())
    assert ("create_terminal" in client.sent) == can_tell


@given(st.lists(TEXTS, max_size=8), st.integers(1, 5))
def test_a_streamed_answer_is_shown_once_also_after_a_gap(pieces: list[str], gap: int) -> None:
    pieces = [each for each in pieces if "\ud800" not in each and "\udfff" not in each]
    whole, updates, shown = "".join(pieces), TurnUpdates(FOLDER), ""
    happened: list[ev.Event] = [ev.TextDelta(session_id="s", turn_id="t", text=each) for each in pieces]
    # What was said between the gap and its end is known from the answer alone.
    for event in [*happened[:gap], ev.TurnCompleted(session_id="s", turn_id="t", final_response=whole)]:
        shown += "".join(each.content.text for each in updates.of(event))  # type: ignore[union-attr]
    assert shown == whole.replace("\0", "\ufffd")


MESSAGES = st.one_of(
    st.builds(lambda text: {"role": "user", "content": text}, TEXTS),
    st.builds(
        lambda text, name, arguments, call: {
            "role": "assistant",
            "content": text,
            "tool_calls": [
                {"id": call, "type": "function", "function": {"name": name, "arguments": arguments}}
            ],
        },
        TEXTS,
        NAMES,
        ARGUMENTS,
        IDS,
    ),
    st.builds(lambda text, call: {"role": "tool", "content": text, "tool_call_id": call}, TEXTS, IDS),
)


@given(st.lists(MESSAGES, max_size=12))
def test_every_update_of_a_loaded_conversation_fits(messages: list[Any]) -> None:
    stored = [StoredMessage("s", number, "t", 0, False, message) for number, message in enumerate(messages)]
    replay = Replay(FOLDER)
    for update in [*replay.of(stored), *replay.left_open()]:
        check(update)
