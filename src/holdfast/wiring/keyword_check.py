"""Refuses a keyword that a call does not take, where the others come as a `TypedDict`."""

import difflib
import inspect
from collections.abc import Callable, Mapping


def refuse_unknown(
    call: str, given: Mapping[str, object], known: type, signed: Callable[..., object]
) -> None:
    """Raise `TypeError`, as Python itself does, and name what was meant. `known` is the `TypedDict`."""
    unknown = [name for name in given if name not in known.__annotations__]
    if not unknown:
        return
    named = [
        each.name
        for each in inspect.signature(signed).parameters.values()
        if each.kind is not each.VAR_KEYWORD and each.name != "self"
    ]
    takes = [*named, *known.__annotations__]
    close = difflib.get_close_matches(unknown[0], takes, n=1)
    right = f"did you mean {close[0]!r}?" if close else f"it takes {', '.join(takes)}"
    raise TypeError(f"{call} takes no argument {unknown[0]!r}; {right}")
