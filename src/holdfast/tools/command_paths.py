"""Finds out whether a command line names Holdfast's own files, or folders that contain them.

`shell_words.py` reads the words. One that only the shell can resolve, and that could name such a file or
another process in /proc, counts as one that does. This is no protection against a hostile program, which can
hide a name. That is the task of the sandbox, and of the approval that every command needs.
"""

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path

from holdfast.core.own_files import PROCESS, OwnFiles
from holdfast.tools.contract import ApprovalRequest
from holdfast.tools.process_listing import shows_environments
from holdfast.tools.shell_reader import ANY, MAYBE
from holdfast.tools.shell_words import ShellWords

MAX_RESOLVED = 2000
"""Of so many different paths the links are followed; the others are compared as they are written."""
MAX_PATTERNS = 2000
MAX_LISTED = 20_000
"""So many names in folders are compared with all patterns of a command."""
MAX_PATH = 4096
"""A longer one can't be opened, and takes long to resolve."""
MAX_WILD = 6
"""The most patterns in one path that are compared; with more, the rest of the path may be anything."""
PATTERN = re.compile(rf"[*?\[{ANY}{MAYBE}]")
WILD = re.compile(rf"[{ANY}{MAYBE}]+|\*\*|\*|\?|\[.*", re.DOTALL)
ANYTHING = re.compile(rf"[*?]*{ANY}[*?{ANY}]*|\*\*")
PROC = "/proc"
PROCESSES = ("/proc/1", "/proc/self", "/proc/thread-self")


def command_request(
    command: str, folder: Path, environment: Mapping[str, str], own: OwnFiles, reason: str = ""
) -> ApprovalRequest:
    """The approval request for a command in `folder`, marked when it can reach own files. Reads the disk."""
    request = ApprovalRequest(subject=command, kind="command", reason=reason)
    words = ShellWords(command, folder, environment)
    check = _PathCheck(own)
    check.near = bool(own.within(Path(os.path.realpath(folder))))
    for path in dict.fromkeys(words.paths()):
        check.add(path)
    if check.names_own() or not words.readable or shows_environments(words.run_commands):
        return replace(request, own_files=True, reason=_join_reasons(reason, "names Holdfast's own files"))
    if check.near:
        near_reason = "could reach Holdfast's own files, which are in a folder that it names or runs in"
        return replace(request, near_own_files=True, reason=_join_reasons(reason, near_reason))
    if not check.complete or words.has_unknown():
        unknown = "holds a name that only the shell knows, which could be one of Holdfast's own files"
        return replace(request, near_own_files=True, reason=_join_reasons(reason, unknown))
    return request


def named_paths(command: str, folder: Path, environment: Mapping[str, str]) -> Iterator[str]:
    """The words of a command that may be paths, as whole paths."""
    paths = dict.fromkeys(ShellWords(command, folder, environment).paths())
    known = (each for each in paths if not re.search(f"[{ANY}{MAYBE}]", each) and len(each) <= MAX_PATH)
    yield from dict.fromkeys(os.path.normpath(each) for each in islice(known, MAX_RESOLVED))


class _PathCheck:
    """Whether paths lead to own files, and whether one may be a folder above them. The work has a limit."""

    def __init__(self, own: OwnFiles) -> None:
        self._own = own
        self._private = tuple(each.as_posix().casefold() for each in own.private)
        self._resolved: set[Path] = set()
        self._named = False
        self._left = MAX_RESOLVED
        self._patterns_left = MAX_PATTERNS
        self._names_left = MAX_LISTED
        self.near = False
        self.complete = True

    def add(self, path: str) -> None:
        if len(path) > MAX_PATH:
            self.complete = False
        elif PATTERN.search(path):
            self._add_pattern(path)
        elif self._left > 0:
            self._left -= 1
            # A program goes through links before `..`, the shell's `cd` does not.
            for each in {path, os.path.normpath(path)}:
                self._add_resolved(_resolved(each))
        else:
            self.complete = False
            self._named = self._named or self._is_written_as_own(os.path.normpath(path))

    def names_own(self) -> bool:
        """Whether one of the paths is an own file, under any name."""
        return self._named or self._own.any_private(self._resolved)

    def _is_written_as_own(self, path: str) -> bool:
        folded = path.casefold()
        return bool(PROCESS.match(path)) or any(f"{folded}/".startswith(f"{each}/") for each in self._private)

    def _add_resolved(self, path: Path) -> None:
        if path not in self._resolved:
            self._resolved.add(path)
            self.near = self.near or bool(self._own.within(path)) or str(path) in {PROC, "/"}

    def _add_pattern(self, pattern: str) -> None:
        """A pattern may match one of the own files, or a folder above one."""
        # What only a program would expand counts when it fits an own file, and not when it may be anything.
        certain = MAYBE not in pattern
        steps, climbs = _steps(pattern.replace(MAYBE, ANY))
        self.near = self.near or (certain and (climbs or steps[0] == ANY))
        if steps[0] and ANY not in steps[0]:
            self._resolved.add(Path(steps[0]))
        for target, in_proc in (
            *((each, False) for each in self._private),
            *((each, True) for each in PROCESSES),
        ):
            if _could_match(steps, target):
                self._patterns_left -= 1
                self._compare(steps, target, in_proc=in_proc, certain=certain)
        if certain and ANY not in pattern and not climbs:
            self._add_matches(steps)

    def _compare(self, steps: list[str], target: str, *, in_proc: bool, certain: bool) -> None:
        # Nobody writes so many patterns that could be an own file: those that are left count as one.
        inside, above = (
            _compared(steps, target, in_proc=in_proc) if self._patterns_left >= 0 else (True, True)
        )
        self._named = self._named or inside
        self.near = self.near or (above and certain)

    def _add_matches(self, steps: list[str]) -> None:
        """A match may be a link, or lie behind one."""
        found = [steps[0]]
        for step in steps[1:]:
            found = list(self._matches(found, step))
        self._resolved |= {_resolved(each) for each in found}

    def _matches(self, folders: list[str], step: str) -> Iterator[str]:
        expression = re.compile(_step_expression(step, in_proc=False), re.DOTALL)
        for folder in folders:
            self._names_left -= 1
            if not PATTERN.search(step):
                yield f"{folder}/{step}"
                continue
            for name in _names_in(folder or "/"):
                self._names_left -= 1
                if self._names_left < 0:
                    self.complete = False
                    return
                if expression.fullmatch(name):
                    yield f"{folder}/{name}"


def _names_in(folder: str) -> Iterator[str]:
    try:
        with os.scandir(folder) as entries:
            for each in entries:
                yield each.name
    except OSError:
        return


def _resolved(path: str) -> Path:
    try:
        return Path(os.path.realpath(path))
    except OSError:  # a link that this user may not read, as `/proc/1/exe`
        return Path(os.path.normpath(path))


def _join_reasons(*reasons: str) -> str:
    return "; ".join(filter(None, reasons))


def _could_match(steps: list[str], target: str) -> bool:
    """Whether the first step fits, roughly. It saves the exact comparison of almost all patterns."""
    first = next((step for step in steps if step != ANY), "").casefold()
    # One number of a process stands for all.
    between = re.compile(f"{WILD.pattern}|[0-9]+", re.DOTALL) if target.startswith(PROC) else WILD
    return all(text in target for text in between.split(first))


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


def _compared(steps: list[str], target: str, *, in_proc: bool) -> tuple[bool, bool]:
    inside = above = False
    above_target = [parent.as_posix() for parent in Path(target).parents]
    for at in range(1, len(steps) + 1):
        expression = re.compile(_expression("/".join(steps[:at]).casefold(), in_proc=in_proc), re.DOTALL)
        if expression.fullmatch(target):
            # Any path at all is no name of an own file, but may be one. Anything in /proc may be a process.
            is_named = not ANYTHING.fullmatch(steps[at - 1]) or steps[: at - 1] == [PROC]
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
