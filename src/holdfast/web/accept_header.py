"""Which media type a client prefers, by its `Accept` headers (RFC 9110)."""

from collections.abc import Iterable


def prefers(accepts: Iterable[str], wanted: str, *, to: str) -> bool:
    """Whether the client names `wanted` and ranks it above `to`."""
    weights = {name: weight for header in accepts for name, weight in map(_weighted, header.split(","))}
    return weights.get(wanted, 0.0) > weights.get(to, 0.0)


def _weighted(entry: str) -> tuple[str, float]:
    name, *parameters = (part.strip().lower() for part in entry.split(";"))
    for parameter in parameters:
        if parameter.startswith("q="):
            try:
                return name, float(parameter[2:])
            except ValueError:
                return name, 0.0
    return name, 1.0
