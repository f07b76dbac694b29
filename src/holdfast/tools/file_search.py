"""The tools that search files by name and by content, with limits. Read `search_worker.py` first."""

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from holdfast.core.errors import ToolFailed
from holdfast.core.messages import storable
from holdfast.tools import search_worker
from holdfast.tools.contract import Tool, ToolContext
from holdfast.tools.decorator import tool
from holdfast.tools.json_worker import json_worker
from holdfast.tools.resolved_path import ResolvedPath, readable_path

SEARCH_SECONDS = 20.0
MAX_FOUND = 200
MAX_ANSWER_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class Request:
    """What to search for; `above` are the parent folders whose .gitignore applies."""

    folder: str
    above: list[str]
    glob: str
    limit: int
    pattern: str | None = None
    ignore_case: bool = False
    own: list[str] = field(default_factory=list)
    """Holdfast's own files and folders, which are excluded."""


@dataclass(frozen=True, slots=True)
class Findings:
    """The findings, and a note when they are not complete."""

    found: list[dict[str, Any]]
    note: str


async def search(request: Request, seconds: float = SEARCH_SECONDS) -> Findings:
    """Run the worker. After a timeout the findings so far are returned."""
    found: list[dict[str, Any]] = []
    note = f"the search took more than {seconds:g} s and was ended; this was found until then"
    asked = json.dumps(asdict(request)).encode()
    with contextlib.suppress(TimeoutError):
        async with (
            asyncio.timeout(seconds),
            json_worker(search_worker.__file__, asked, MAX_ANSWER_BYTES) as lines,
        ):
            note = await _take(lines, request.limit, found)
    return Findings(found, note)


async def _take(lines: AsyncIterator[dict[str, Any]], limit: int, found: list[dict[str, Any]]) -> str:
    async for each in lines:
        if "problem" in each:
            raise ToolFailed(each["problem"])
        if "more" in each:
            return f"there is more; these are the first {limit}"
        if "end" in each:
            return ""
        found.append(each)
    return "the search ended early; this was found until then"


def _request(target: ResolvedPath, context: ToolContext, glob: str, limit: int) -> Request:
    root = Path(os.path.realpath(context.workspace))
    above = [str(each) for each in reversed(target.path.parents) if each.is_relative_to(root)]
    # When a person allowed an own folder, nothing in it is excluded.
    own = [] if target.own else [str(each) for each in context.own_files.private]
    return Request(str(target.path), above, glob, limit, own=own)


def _display_path(path: str, context: ToolContext) -> str:
    root = os.path.realpath(context.workspace)
    name = os.path.relpath(path, root) if Path(path).is_relative_to(root) else path
    shown = storable(name)
    return shown.encode("unicode_escape").decode() if any(char < " " for char in name) else shown


def _format_findings(lines: list[str], note: str, nothing: str) -> str:
    return "\n".join([*(lines or [nothing]), *([f"[{note}]"] if note else [])])


@tool(changes=False)
async def find_files(
    glob: Annotated[str, Field(min_length=1)],
    context: ToolContext,
    folder: str = ".",
    limit: Annotated[int, Field(ge=1, le=2000)] = MAX_FOUND,
) -> str:
    """Find files by name. Leaves out what .gitignore names, and follows no links.

    Args:
        glob: such as *.py (in any folder), src/**/test_*.py or *.{js,ts}
        folder: where to look
        limit: how many at most

    """
    findings = await search(_request(await readable_path(context, folder), context, glob, limit))
    return _format_findings(
        [_display_path(each["path"], context) for each in findings.found], findings.note, "no file found"
    )


@tool(changes=False)
async def search_files(
    pattern: Annotated[str, Field(min_length=1)],
    context: ToolContext,
    folder: str = ".",
    glob: str = "",
    ignore_case: bool = False,
    limit: Annotated[int, Field(ge=1, le=2000)] = MAX_FOUND,
) -> str:
    """Search the content of text files, line by line. Leaves out what .gitignore names.

    Args:
        pattern: a regular expression, as Python writes them
        folder: where to look: a folder or one file
        glob: only files with such a name, as for find_files
        ignore_case: whether upper and lower case are the same
        limit: how many lines at most

    """
    request = _request(await readable_path(context, folder), context, glob, limit)
    findings = await search(replace(request, pattern=pattern, ignore_case=ignore_case))
    lines = [
        f"{_display_path(each['path'], context)}:{each['line']}: {storable(each['text'])}"
        for each in findings.found
    ]
    return _format_findings(lines, findings.note, "nothing found")


def search_tools() -> list[Tool]:
    """The tools that search files."""
    return [find_files, search_files]
