"""`holdfast.__all__` is the promise: names and signatures are pinned, and load on use."""

import ast
import importlib
import inspect
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

import holdfast
import holdfast.gateway
import holdfast.testing
from tests.house.test_repository import fenced_blocks

PUBLIC_NAMES = [
    "Agent",
    "AgentOptions",
    "ApprovalRequest",
    "AskOptions",
    "CompletedTurn",
    "Finished",
    "Host",
    "Limits",
    "MemoryManager",
    "MemoryProvider",
    "Model",
    "ModelPiece",
    "ModelRequest",
    "ModelTraits",
    "Pools",
    "SessionDB",
    "SessionLifecycle",
    "Settings",
    "TextPiece",
    "ToolCallPiece",
    "ToolContext",
    "ToolProfiles",
    "ToolResult",
    "TurnHandle",
    "TurnResult",
    "Usage",
    "__version__",
    "errors",
    "events",
    "open_model",
    "tool",
]

SIGNATURES = {
    "Agent": "(model, store=None, session=None, memory=None, tools=(), options=None, **names)",
    "Agent.run": "(self, text=None, *, result_type=None)",
    "Agent.stream": "(self, text=None)",
    "Agent.run_sync": "(self, text=None, *, result_type=None)",
    "Agent.interrupt": "(self, message='', *, reason='the person interrupted')",
    "Agent.unfinished": "(self)",
    "Agent.resume": "(self)",
    "Agent.retry": "(self)",
    "Agent.drop": "(self, why='cut off by a crash')",
    "Agent.compress_context": "(self, messages, system, *, approx_tokens=None, focus='')",
    "Agent.commit_memory_session": "(self)",
    "Agent.close": "(self)",
    "Host": "(settings=None, *, model=None, tools=(), memory=None, store=None, options=None, **how)",
    "Host.ask": "(self, session_id, text, options=…, *, key=None)",
    "Host.follow": "(self, session_id, *, after=None)",
    "Host.send": "(self, session_id, text, mode='queue', *, key=None, create=True, scope=None)",
    "Host.interrupt": "(self, session_id, text='', *, key=None, turn_id=None)",
    "Host.approve": "(self, session_id, ask_id, decision)",
    "Host.answer": "(self, session_id, ask_id, text, *, key=None, park=True)",
    "Limits": "(max_steps=50, max_seconds=1800.0, max_cost=None)",
    "MemoryManager": "(store=None, *, clock=None, policy=None, drain_seconds=5.0, recall_seconds=2.0)",
    "MemoryManager.add_provider": "(self, provider, *, session_id='', **kwargs)",
    "MemoryManager.sync_all": "(self, user, assistant, *, session_id=None, messages=None)",
    "MemoryManager.flush_pending": "(self, timeout=10.0)",
    "MemoryManager.shutdown_all": "(self, budget=None)",
    "ModelRequest": "(system, messages, tools=(), max_output_tokens=None, conversation='', options=…)",
    "Pools": "(store_threads=16, tool_threads=32)",
    "SessionDB": "(db_path, *, clock=None, patience=30.0, create=True, lease_seconds=12.0)",
    "SessionDB.open": "(url, *, clock=None, patience=30.0, create=True, lease_seconds=12.0, connections=10)",
    "SessionLifecycle": "(store=None, *, clock=None, commit_timeout=5.0)",
    "ToolResult": "(text, ok=True, pictures=())",
    "open_model": "(name, **options)",
    "tool": "(function=None, /, *, name=None, timeout=120.0, changes=True, needs_approval=False)",
}

OPTIONS = {
    "workspace",
    "instructions",
    "system_prompt",
    "approve",
    "before_tool",
    "after_tool",
    "limits",
    "pools",
    "recall_seconds",
    "result_type",
}


def test_the_public_names_are_exactly_these() -> None:
    assert holdfast.__all__ == PUBLIC_NAMES


def signature(dotted: str) -> str:
    """The parameters with their defaults, without their types."""
    target: object = holdfast
    for part in dotted.split("."):
        target = getattr(target, part)
    assert callable(target)
    shown = inspect.signature(target)
    parameters = [
        each.replace(annotation=inspect.Parameter.empty, default=_default(each.default))
        for each in shown.parameters.values()
    ]
    return str(shown.replace(parameters=parameters, return_annotation=inspect.Signature.empty))


class _Short:
    def __repr__(self) -> str:
        return "…"


def _default(value: object) -> object:
    plain = value is inspect.Parameter.empty or value is None or isinstance(value, str | int | float | tuple)
    return value if plain else _Short()


@pytest.mark.parametrize("dotted", SIGNATURES)
def test_the_signatures_are_exactly_these(dotted: str) -> None:
    assert signature(dotted) == SIGNATURES[dotted]


def test_the_options_of_an_agent_have_these_names() -> None:
    assert {each.name for each in fields(holdfast.AgentOptions)} >= OPTIONS


@pytest.mark.parametrize("name", PUBLIC_NAMES)
def test_each_public_name_can_be_imported(name: str) -> None:
    assert getattr(holdfast, name) is not None
    assert name in dir(holdfast)


def programs(checkout: Path) -> Iterator[tuple[str, str]]:
    """The Python code that people copy: blocks of the documents, and the examples."""
    for document in [checkout / "README.md", *sorted(checkout.glob("docs/*.md"))]:
        for block in fenced_blocks(document.read_text(encoding="utf-8"), "python"):
            yield document.name, block
    for example in sorted(checkout.glob("examples/*.py")):
        yield example.name, example.read_text(encoding="utf-8")


def names_of_ours(code: str) -> Iterator[tuple[str, str]]:
    """What a program imports of Holdfast: the module, and the name in it."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and re.match(r"holdfast(\.|$)", node.module or ""):
            yield from ((str(node.module), each.name) for each in node.names)
        if isinstance(node, ast.Import):
            yield from ((each.name, "") for each in node.names if each.name.partition(".")[0] == "holdfast")


def test_the_documents_and_examples_use_no_name_that_is_not_promised(checkout: Path) -> None:
    promised = {
        "holdfast": {"", *holdfast.__all__},
        "holdfast.gateway": {*holdfast.gateway.__all__},
        "holdfast.testing": {*holdfast.testing.__all__},
    }
    used = [(where, *each) for where, code in programs(checkout) for each in names_of_ours(code)]
    assert len(used) > 20
    assert [each for each in used if each[2] not in promised.get(each[1], set())] == []


@pytest.mark.parametrize("name", holdfast.testing.__all__)
def test_each_name_for_tests_can_be_imported(name: str) -> None:
    assert getattr(importlib.import_module("holdfast.testing"), name) is not None


def test_an_unknown_name_is_an_attribute_error() -> None:
    name = "Sessions"
    with pytest.raises(AttributeError, match="no attribute 'Sessions'"):
        getattr(holdfast, name)


def test_importing_holdfast_imports_no_third_party_module() -> None:
    script = (
        "import sys, json; before = set(sys.modules); import holdfast;"
        "print(json.dumps(sorted({name.split('.')[0] for name in set(sys.modules) - before})))"
    )
    child = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)
    loaded = set(json.loads(child.stdout))
    assert loaded - sys.stdlib_module_names == {"holdfast"}
