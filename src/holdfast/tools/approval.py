"""`ApprovalPolicy`: decides whether a request is allowed, refused, or needs a person's approval.

A rule is `KIND:PATTERN`, with a glob pattern for the request's subject: `command:git status*`,
`write:/home/me/notes/*`. A rule covers a command line only when it covers each command in it. Rules only
allow, and none covers a destructive command: only the mode `never-ask` lets one run unasked.
`open_questions.py` asks the person.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Literal, Self

from holdfast.core.errors import InvalidInput
from holdfast.core.setting_checks import split_rule
from holdfast.tools.command_parts import command_parts
from holdfast.tools.contract import ApprovalRequest
from holdfast.tools.destructive import destructive

ApprovalMode = Literal["ask", "never-ask", "always-refuse"]
Decision = Literal["allow", "ask", "refuse"]
COMMAND = "command"


@dataclass(frozen=True, slots=True)
class AllowRule:
    """A rule that allows requests without asking. `kind` may be a glob too."""

    kind: str
    pattern: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `KIND:PATTERN`."""
        try:
            return cls(*split_rule(text))
        except ValueError as wrong:
            raise InvalidInput(str(wrong)) from None

    @classmethod
    def exactly(cls, request: ApprovalRequest) -> Self:
        """The rule that covers only this request."""
        return cls(request.kind, re.sub(r"([*?\[])", r"[\1]", request.subject))

    def covers(self, kind: str, text: str) -> bool:
        if not fnmatchcase(kind, self.kind):
            return False
        # `ls *` means `ls` with or without arguments.
        bare = self.pattern.removesuffix(" *")
        return fnmatchcase(text, self.pattern) or (bare != self.pattern and fnmatchcase(text, bare))


def is_covered(request: ApprovalRequest, rules: Iterable[AllowRule]) -> bool:
    """Whether the rules allow the whole request."""
    known = list(rules)
    if request.kind != COMMAND:
        return any(rule.covers(request.kind, request.subject) for rule in known)
    if any(rule == AllowRule.exactly(request) for rule in known):
        return True
    parts = command_parts(request.subject)
    return parts is not None and all(any(rule.covers(COMMAND, part) for rule in known) for part in parts)


def mark_destructive(request: ApprovalRequest) -> ApprovalRequest:
    """The request, marked as destructive when its command matches a known destructive form."""
    if request.kind != COMMAND or request.destructive:
        return request
    harm = destructive(request.subject)
    if harm is None:
        return request
    return replace(request, destructive=True, reason="; ".join(filter(None, (request.reason, harm))))


@dataclass(frozen=True, slots=True)
class ApprovalPolicy:
    """Decides before a person is asked.

    `ask` is the default. `never-ask` allows everything, even destructive commands, except Holdfast's own
    files. `always-refuse` refuses every request that would need approval.
    """

    mode: ApprovalMode = "ask"
    allow: tuple[AllowRule, ...] = ()
    attended: bool = True
    """Whether a person can be asked. If not, every request that needs approval is refused."""
    own_files: tuple[AllowRule, ...] = ()
    """Rules for Holdfast's own files. No setting can add one."""
    fenced: bool = False
    """Only commands can be approved, which then run in a sandbox: for people other than the owner.

    What leads out of the workspace, to Holdfast's own files or to a private address is refused.
    """

    @classmethod
    def of(cls, mode: ApprovalMode, allow: Iterable[str]) -> Self:
        """The policy from the settings."""
        return cls(mode, tuple(AllowRule.parse(text) for text in allow))

    def decide(self, request: ApprovalRequest, granted: Sequence[AllowRule] = ()) -> Decision:
        """Decide about a request that `mark_destructive` returned.

        `granted` are the rules of this session.
        """
        if self.fenced and request.kind != COMMAND:
            return "refuse"
        if request.own_files:
            allowed = is_covered(request, self.own_files)
        elif request.each_time:
            allowed = self.mode == "never-ask"
        else:
            allowed = self.mode == "never-ask" or is_covered(request, (*self.allow, *granted))
        if allowed:
            return "allow"
        return "refuse" if self.mode == "always-refuse" or not self.attended else "ask"
