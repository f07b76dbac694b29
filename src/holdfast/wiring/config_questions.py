"""Values for declared fields: from the command line, from a person at a terminal, or as they are stored.

`holdfast memory setup` and `holdfast gateway setup` both ask by these functions.
"""

import getpass
import sys
from collections.abc import Callable, Mapping, Sequence

from holdfast.core.errors import InvalidInput
from holdfast.core.secret import MASK
from holdfast.memory.config import ConfigField, active_fields


def given_values(fields: Sequence[ConfigField], values: Sequence[str]) -> dict[str, str]:
    """The KEY=VALUE pairs of a command line; `InvalidInput` names the keys that there are."""
    known = {each.key for each in fields}
    given = {}
    for each in values:
        key, equals, value = each.partition("=")
        if not equals or key not in known:
            listed = ", ".join(sorted(known)) or "none"
            raise InvalidInput(f"{key!r} is no KEY=VALUE here; the keys: {listed}")
        given[key] = value.strip()
    return given


def chosen_values(
    fields: Sequence[ConfigField],
    given: Mapping[str, str],
    stored: Mapping[str, str],
    show: Callable[[str], None],
) -> dict[str, str]:
    """A value for each field that counts: given, asked for, or as it is stored.

    A person is asked only at a terminal, and only when nothing was given. `show` tells them what is wrong.
    """
    asks = sys.stdin.isatty() and not given
    chosen: dict[str, str] = {}
    effective: dict[str, str] = {}
    for each in active_fields(fields, effective):
        value = given.get(each.key, stored.get(each.key, ""))
        if asks:
            value = _ask(each, value, show)
        elif problem := each.problem(value):
            raise InvalidInput(problem)
        if value:
            chosen[each.key] = value
        effective[each.key] = value or each.default
    return chosen


def _ask(field: ConfigField, present: str, show: Callable[[str], None]) -> str:
    text = f"{field.description or field.key}"
    text += f" ({'/'.join(field.choices)})" if field.choices else ""
    text += f", from {field.url}" if field.url else ""
    kept = present or field.default
    shown = MASK if field.secret and present else kept
    question = f"{text}{f' [{shown}]' if shown else ''}: "
    while True:
        answer = (getpass.getpass(question) if field.secret else input(question)).strip() or present
        problem = field.problem(answer)
        if problem is None and field.required and not (answer or field.default):
            problem = f"{field.key} is needed"
        if problem is None:
            return answer
        show(problem)
