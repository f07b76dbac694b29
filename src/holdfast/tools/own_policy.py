"""A program's own approval policy: an async function, or an object with an async method `approve`.

It is asked before the person. True allows the request, False refuses it, None leaves it to the person.
Holdfast's own files stay behind the person's approval, whatever the policy says.
"""

import inspect
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, cast

from holdfast.core.errors import InvalidInput
from holdfast.tools.approval import mark_destructive
from holdfast.tools.contract import ApprovalRequest, Person, refusal

logger = logging.getLogger(__name__)

REFUSED = "the program's approval policy refuses it"
FAILED = "the program's approval policy failed"

ApproveFunction = Callable[[ApprovalRequest], Awaitable[bool | None]]


class ApproveObject(Protocol):
    async def approve(self, request: ApprovalRequest) -> bool | None: ...


Approve = ApproveFunction | ApproveObject


def is_async(function: object) -> bool:
    """Whether a call gives something to await."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - an object that can be called
    )


def checked_policy(approve: Approve | None) -> ApproveFunction | None:
    """The policy as a function; raises `InvalidInput` for what is none."""
    if approve is None:
        return None
    method = getattr(approve, "approve", approve)
    if not is_async(method):
        raise InvalidInput(
            "approve is an async function of a request that returns True, False or None (ask the person), "
            f"or an object with such a method `approve`, not {approve!r:.80}"
        )
    return cast("ApproveFunction", method)


@dataclass(frozen=True, slots=True)
class PersonBehindFunction:
    """The person for one tool call, asked only when the program's own policy does not decide."""

    decide: ApproveFunction
    person: Person
    refusals: list[str] = field(default_factory=list)

    @property
    def refusal(self) -> str:
        """Why the last request was refused."""
        return self.refusals[-1] if self.refusals else ""

    async def approve(self, request: ApprovalRequest) -> bool:
        known = mark_destructive(request)
        try:
            decision = await self.decide(known)
        except Exception:
            logger.exception("approval.policy_failed", extra={"kind": known.kind})
            self.refusals.append(FAILED)
            return False
        if decision is False:
            self.refusals.append(REFUSED)
            return False
        if decision is True and not known.own_files:
            return True
        allowed = await self.person.approve(known)
        self.refusals.append("" if allowed else refusal(self.person))
        return allowed

    async def answer(self, question: str, choices: Sequence[str] = ()) -> str | None:
        return await self.person.answer(question, choices)


def behind(approve: Approve | None, person: Person) -> Person:
    """The person behind the policy, if there is one."""
    decide = checked_policy(approve)
    return person if decide is None else PersonBehindFunction(decide, person)
