"""Prices and abilities of well-known models, as their makers published them. Pure data and a lookup.

The settings and a server's own list have priority. A model is known by its exact name, with or without a date
behind it: a name that only begins alike is another model, at a price that nobody here knows.
"""

import re

from holdfast.models.contract import Prices

PRICES_AS_OF = "2025-11"
"""The month in which these prices were looked up; makers change them."""
# Dollars for a million tokens: input, output, cached input.
KNOWN_PRICES: dict[str, tuple[float, float, float]] = {
    "gpt-5": (1.25, 10, 0.125),
    "gpt-5-mini": (0.25, 2, 0.025),
    "gpt-5-nano": (0.05, 0.4, 0.005),
    "gpt-4.1": (2, 8, 0.5),
    "gpt-4.1-mini": (0.4, 1.6, 0.1),
    "gpt-4.1-nano": (0.1, 0.4, 0.025),
    "gpt-4o": (2.5, 10, 1.25),
    "gpt-4o-mini": (0.15, 0.6, 0.075),
    "o3": (2, 8, 0.5),
    "o4-mini": (1.1, 4.4, 0.275),
    "claude-opus-4-5": (5, 25, 0.5),
    "claude-opus-4-1": (15, 75, 1.5),
    "claude-sonnet-4-5": (3, 15, 0.3),
    "claude-sonnet-4": (3, 15, 0.3),
    "claude-haiku-4-5": (1, 5, 0.1),
    "claude-3-5-haiku": (0.8, 4, 0.08),
}
# The usual models of both makers; their prices are not in the table.
UNPRICED = frozenset({"gpt-5.4-mini", "claude-sonnet-5"})
DATE = re.compile(r"-(?:\d{8}|\d{4}-\d{2}-\d{2})$")


def known_prices(name: str) -> Prices:
    """The published prices of a model; unknown for any other."""
    found = KNOWN_PRICES.get(name) or KNOWN_PRICES.get(DATE.sub("", name))
    return Prices(*found, as_of=PRICES_AS_OF) if found else Prices()


def is_known(name: str) -> bool:
    """Whether this is one of these models, all of which call tools and take pictures."""
    return any(each in KNOWN_PRICES or each in UNPRICED for each in (name, DATE.sub("", name)))
