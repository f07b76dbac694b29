"""Finds out whether a command line names Holdfast's own files, or folders that contain them.

`shell_words.py` reads the words. One that only the shell can resolve, and that could name such a file or
another process in /proc, counts as one that does. This is no protection against a hostile program, which can
hide a name. That is the task of the sandbox, and of the approval that every command needs.
"""

import glob
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path

from holdfast.core.own_files import OwnFiles
from holdfast.tools.contract import ApprovalRequest
from holdfast.tools.shell_words import ANY, ShellWords

MAX_WORDS = 2000
MAX_FOUND = 1000
MAX_PATH = 4096
"""A longer one can't be opened, and takes long to resolve."""
MAX_WILD = 6
"""The most patterns in one path that are compared; with more, the rest of the path may be anything."""
PATTERN = re.compile(rf"[*?\[{ANY}]")
WILD = re.compile(rf"{ANY}+|\*\*|\*|\?|\[.*", re.DOTALL)
PROC = "/proc"
PROCESSES = ("/proc/1", "/proc/self", "/proc/thread-self")
PS = re.compile(r"(?:^|[\s;&|(`/])ps((?:\s+[^\s;&|()<>`]+)+)")
PS_VALUE = re.compile(r"-[A-Za-z]*[CDGNOUgknopqstu]|--\w+")
Found = tuple[bool, bool]
"""Whether own files are named, and whether a folder above them is."""


def command_request(
    command: str, folder: Path, environment: Mapping[str, str], own: OwnFiles, reason: str = ""
) -> ApprovalRequest:
    """The approval request for a command in `folder`, marked when it can reach own files. Reads the disk."""
    request = ApprovalRequest(subject=command, kind="command", reason=reason)
    words = ShellWords(command, folder, environment)
    named, near = _shows_environments(command), bool(own.within(Path(os.path.realpath(folder))))
    paths, complete = _first(words.paths())
    for path in paths:
        inside, above = _reached(path, own)
        named, near = named or inside, near or above
    if named:
        return replace(request, own_files=True, reason=_join_reasons(reason, "names Holdfast's own files"))
    if near:
        near_reason = "could reach Holdfast's own files, which are in a folder that it names or runs in"
        return replace(request, near_own_files=True, reason=_join_reasons(reason, near_reason))
    if not complete or words.has_unknown():
        unknown = "holds a name that only the shell knows, which could be one of Holdfast's own files"
        return replace(request, near_own_files=True, reason=_join_reasons(reason, unknown))
    return request


def named_paths(command: str, folder: Path, environment: Mapping[str, str]) -> Iterator[str]:
    """The words of a command that may be paths, as whole paths."""
    paths, _ = _first(ShellWords(command, folder, environment).paths())
    yield from dict.fromkeys(os.path.normpath(each) for each in paths if ANY not in each)


def _first(paths: Iterator[str]) -> tuple[list[str], bool]:
    """The first different paths, and whether these are all."""
    seen: dict[str, None] = {}
    complete = True
    for each in paths:
        if len(each) > MAX_PATH:
            complete = False
        else:
            seen[each] = None
        if len(seen) > MAX_WORDS:
            return list(seen), False
    return list(seen), complete


def _reached(path: str, own: OwnFiles) -> Found:
    if PATTERN.search(path):
        return _matched(path, own)
    # A program goes through links before `..`, the shell's `cd` does not.
    found = [_judged(each, own) for each in {path, os.path.normpath(path)}]
    return any(inside for inside, _ in found), any(above for _, above in found)


def _judged(path: str, own: OwnFiles) -> Found:
    found = _resolved(path)
    return bool(own.reason_to_ask(found)), bool(own.within(found)) or str(found) in {PROC, "/"}


def _resolved(path: str) -> Path:
    try:
        return Path(os.path.realpath(path))
    except OSError:  # a link that this user may not read, as `/proc/1/exe`
        return Path(os.path.normpath(path))


def _join_reasons(*reasons: str) -> str:
    return "; ".join(filter(None, reasons))


def _matched(pattern: str, own: OwnFiles) -> Found:
    """Whether a pattern may match one of the own files, and whether it may match a folder above one."""
    steps, climbs = _steps(pattern)
    inside, above = False, climbs
    targets = [(each.as_posix().casefold(), False) for each in own.private]
    for target, in_proc in (*targets, *((each, True) for each in PROCESSES)):
        found = _compared(steps, target, in_proc=in_proc)
        inside, above = inside or found[0], above or found[1]
    if inside or ANY in pattern or climbs:
        return inside, above
    linked, complete = _linked(pattern, own)
    return linked, above or not complete


def _steps(pattern: str) -> tuple[list[str], bool]:
    """The parts of a pattern after those without one, which are resolved; and whether `..` follows a pattern.

    What a pattern matches may be a link: then `..` leads anywhere.
    """
    parts = pattern.split("/")
    first = next(at for at, part in enumerate(parts) if PATTERN.search(part))
    known = (
        os.path.realpath("/".join(parts[:first]) or "/").rstrip("/") if not pattern.startswith(ANY) else ""
    )
    steps, climbs = [known] if not pattern.startswith(ANY) else [], False
    for part in parts[first:]:
        if part == "..":
            steps, climbs = [ANY], True
        elif part not in {"", "."}:
            steps.append(part)
    wild = [at for at, step in enumerate(steps) if at and PATTERN.search(step)]
    if len(WILD.findall("/".join(steps[1:]))) > MAX_WILD:
        steps, climbs = [*steps[: wild[0]], ANY], True
    return steps, climbs


def _compared(steps: list[str], target: str, *, in_proc: bool) -> Found:
    inside = above = False
    above_target = [parent.as_posix() for parent in Path(target).parents]
    for at in range(1, len(steps) + 1):
        expression = re.compile(_expression("/".join(steps[:at]).casefold(), in_proc=in_proc), re.DOTALL)
        if expression.fullmatch(target):
            # Any path at all is no name of an own file, but may be one. Anything in /proc may be a process.
            is_named = steps[at - 1] not in {ANY, "**"} or steps[: at - 1] == [PROC]
            inside, above = inside or is_named, True
        if at == len(steps):
            above = above or any(expression.fullmatch(each) for each in above_target)
    return inside, above


def _expression(pattern: str, *, in_proc: bool) -> str:
    """The pattern as a regular expression, which matches more rather than less."""
    found = "".join(_step_expression(step, in_proc=in_proc) + "/" for step in pattern.split("/"))
    return found.removesuffix("/") or "/"


def _step_expression(step: str, *, in_proc: bool) -> str:
    parts, at = [], 0
    for wild in WILD.finditer(step):
        parts += [
            _literal(step[at : wild.start()], in_proc=in_proc),
            ".*" if wild[0][0] == ANY or wild[0] == "**" else "[^/]*",
        ]
        at = wild.end()
    return "".join((*parts, _literal(step[at:], in_proc=in_proc)))


def _literal(text: str, *, in_proc: bool) -> str:
    # One number of a process stands for all.
    return re.sub(r"\d+", "[0-9]*", re.escape(text)) if in_proc else re.escape(text)


def _linked(pattern: str, own: OwnFiles) -> Found:
    """Whether a match leads to an own file by a link, and whether all matches were looked at."""
    if len(WILD.findall(pattern)) > MAX_WILD // 2:
        return False, False
    found = list(islice(glob.iglob(pattern, include_hidden=True), MAX_FOUND + 1))  # noqa: PTH207
    return any(own.reason_to_ask(_resolved(each)) for each in found), len(found) <= MAX_FOUND


def _shows_environments(command: str) -> bool:
    """Whether `ps` is to show the environments of processes: a word with `e` and without a dash."""
    for found in PS.finditer(command):
        words = found[1].split()
        for before, word in zip(["", *words], words, strict=False):
            if "environ" in word or (
                word.isalpha() and "e" in word.lower() and not PS_VALUE.fullmatch(before)
            ):
                return True
    return False
