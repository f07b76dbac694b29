"""Finds out whether a command line names Holdfast's own files, or folders that contain them.

Words are read roughly: quotes are removed, `~` and variables are replaced, and patterns are compared part by
part. This is no protection against a hostile command, which can hide a name. That is the task of the sandbox,
and of the approval that every command needs.
"""

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

from holdfast.core.own_files import OwnFiles
from holdfast.tools.contract import ApprovalRequest

MAX_WORDS = 2000
QUOTES = str.maketrans("", "", "\\'\"")
BREAKS = re.compile(r"[\s;&|()<>`]+")
INNER = re.compile(r"[=:@,]")
VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
PATTERN = re.compile(r"[*?\[{$]")
QUOTED_WORD = re.compile(r"""(?:[^\s'"\\]|\\.|'[^']*'|"(?:[^"\\]|\\.)*")+""", re.DOTALL)
QUOTE = re.compile(r"\\(.)|['\"]", re.DOTALL)


def command_request(
    command: str, folder: Path, environment: Mapping[str, str], own: OwnFiles, reason: str = ""
) -> ApprovalRequest:
    """The approval request for a command in `folder`, marked when it can reach own files. Reads the disk."""
    request = ApprovalRequest(subject=command, kind="command", reason=reason)
    named, near = False, bool(own.within(Path(os.path.realpath(folder))))
    for path in named_paths(command, folder, environment):
        if PATTERN.search(path):
            inside, above = _matched(path, own)
        else:
            found = _resolved(path)
            inside, above = bool(own.reason_to_ask(found)), bool(own.within(found))
        named, near = named or inside, near or above
    if named:
        return replace(request, own_files=True, reason=_join_reasons(reason, "names Holdfast's own files"))
    if near:
        near_reason = "could reach Holdfast's own files, which are in a folder that it names or runs in"
        return replace(request, near_own_files=True, reason=_join_reasons(reason, near_reason))
    return request


def _resolved(path: str) -> Path:
    try:
        return Path(os.path.realpath(path))
    except OSError:  # a link that this user may not read, as `/proc/1/exe`
        return Path(os.path.normpath(path))


def _join_reasons(*reasons: str) -> str:
    return "; ".join(filter(None, reasons))


def named_paths(command: str, folder: Path, environment: Mapping[str, str]) -> Iterator[str]:
    """The words of a command that may be paths, as whole paths."""
    seen: dict[str, None] = {}
    for word in _words(command):
        filled = VARIABLE.sub(lambda found: environment.get(found[1] or found[2], "*"), word)
        for piece in (filled, *INNER.split(filled), *_after_flag(filled)):
            if piece.startswith("~"):
                name, slash, rest = piece.partition("/")
                home = environment.get("HOME", "") if name == "~" else os.path.expanduser(name)  # noqa: PTH111
                piece = f"{home}{slash}{rest}"  # noqa: PLW2901
            if piece and "\0" not in piece:
                seen[os.path.normpath(folder / piece)] = None
        if len(seen) > MAX_WORDS:
            break
    yield from seen


def _words(command: str) -> Iterator[str]:
    yield from BREAKS.split(command.translate(QUOTES))
    # A path may contain blanks. shlex is not used: its time grows with the square of a word's length.
    for word in QUOTED_WORD.finditer(command):
        # What ends a command may follow without a blank.
        yield QUOTE.sub(lambda found: found[1] or "", word[0].strip(";&|()<>`"))


def _after_flag(word: str) -> Iterator[str]:
    """Paths that follow a flag without a space: `-I/path`, `-rf/path`, `-Cfolder`."""
    if word.startswith("-"):
        yield word[2:]
        yield from (word[at:] for each in "/~" if (at := word.find(each)) > 0)


def _matched(pattern: str, own: OwnFiles) -> tuple[bool, bool]:
    """Whether a pattern may match one of the own files, and whether it may match a folder above one."""
    steps = [re.sub(r"[{$].*", "*", step) for step in Path(pattern).parts]
    inside = above = False
    for each in own.private:
        deep = "**" in steps and steps.index("**") <= len(each.parts)
        pairs = list(zip(each.parts, steps[: steps.index("**")] if deep else steps, strict=False))
        if all(fnmatchcase(part, step) for part, step in pairs):
            inside = inside or (not deep and len(steps) >= len(each.parts))
            above = True
    return inside, above
