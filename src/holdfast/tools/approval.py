"""What a person must allow: the policy that says whether a request is done, refused, or asked about.

A rule is `KIND:PATTERN`, with a glob pattern over the request's subject: `command:git status*`,
`write:/home/me/notes/*`. A command line is covered only when each command in it is, and destructive ones
are asked about under any rule. Asking itself is in `asking.py`.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Literal, Self

from holdfast.core.errors import InvalidInput
from holdfast.tools.command_parts import command_parts
from holdfast.tools.contract import ApprovalRequest
from holdfast.tools.destructive import destructive

ApprovalMode = Literal["ask", "never-ask", "always-refuse"]
Decision = Literal["allow", "ask", "refuse"]
COMMAND = "command"
KIND = re.compile(r"[A-Za-z0-9_*-]+")


@dataclass(frozen=True, slots=True)
class AllowRule:
    """Requests of a kind that need no asking. `kind` may itself be a glob."""

    kind: str
    pattern: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `KIND:PATTERN`."""
        kind, colon, pattern = text.partition(":")
        if not colon or not KIND.fullmatch(kind) or not pattern.strip():
            raise InvalidInput(f"an allow rule is KIND:PATTERN, such as command:git status*, not {text!r}")
        return cls(kind, pattern.strip())

    @classmethod
    def exactly(cls, request: ApprovalRequest) -> Self:
        """The rule that covers this request and no other."""
        return cls(request.kind, re.sub(r"([*?\[])", r"[\1]", request.subject))

    def covers(self, kind: str, text: str) -> bool:
        if not fnmatchcase(kind, self.kind):
            return False
        # `ls *` means `ls` with anything or nothing behind it.
        bare = self.pattern.removesuffix(" *")
        return fnmatchcase(text, self.pattern) or (bare != self.pattern and fnmatchcase(text, bare))


def covered(request: ApprovalRequest, rules: Iterable[AllowRule]) -> bool:
    """Whether the rules allow the whole of the request."""
    known = list(rules)
    if request.kind != COMMAND:
        return any(rule.covers(request.kind, request.subject) for rule in known)
    if any(rule == AllowRule.exactly(request) for rule in known):
        return True
    parts = command_parts(request.subject)
    return parts is not None and all(any(rule.covers(COMMAND, part) for rule in known) for part in parts)


def weighed(request: ApprovalRequest) -> ApprovalRequest:
    """The request, marked as destructive when its command has a known form of that."""
    if request.kind != COMMAND or request.destructive:
        return request
    harm = destructive(request.subject)
    if harm is None:
        return request
    return replace(request, destructive=True, reason="; ".join(filter(None, (request.reason, harm))))


@dataclass(frozen=True, slots=True)
class ApprovalPolicy:
    """Decides before anybody is asked.

    `ask` is the default. `never-ask` allows everything, destructive commands too. `always-refuse` refuses
    whatever would have been asked, for agents that run with nobody there.
    """

    mode: ApprovalMode = "ask"
    allow: tuple[AllowRule, ...] = ()

    @classmethod
    def of(cls, mode: ApprovalMode, allow: Iterable[str]) -> Self:
        """The policy that the settings name."""
        return cls(mode, tuple(AllowRule.parse(text) for text in allow))

    def decide(self, request: ApprovalRequest, granted: Sequence[AllowRule] = ()) -> Decision:
        """What becomes of a `weighed` request; `granted` are the rules given for this session."""
        if self.mode == "never-ask":
            return "allow"
        if not request.destructive and covered(request, (*self.allow, *granted)):
            return "allow"
        return "refuse" if self.mode == "always-refuse" else "ask"
