"""Recognises texts that look like a secret, so that extraction drops them. Pure functions.

A person may still store a secret on purpose, with a tool.
"""

import re

SECRET = re.compile(
    r"""
      \b(?:pass(?:word|phrase|code)|pin|secret|token|credential|(?:api|private|access)[ _-]?key)s?\b
        [^\n]{0,20}?(?:\bis\b|\bare\b|[:=])\s*\S
    | \b(?:sk|pk|rk|ghp|gho|ghs|glpat|xox[abps]|hf|AKIA|ASIA|AIza)[-_]?[A-Za-z0-9_-]{12,}
    | -----BEGIN\ [A-Z ]*PRIVATE\ KEY
    | \bBearer\s+[A-Za-z0-9._-]{12,}
    | \b[a-z][a-z0-9+.-]*://[^\s/:@]+:[^\s/@]+@
    | \b(?=[A-Za-z0-9+/_-]*\d)(?=[A-Za-z0-9+/_-]*[A-Za-z])[A-Za-z0-9+/_-]{32,}\b
    """,
    re.IGNORECASE | re.VERBOSE,
)


def looks_secret(text: str) -> bool:
    """Whether a text seems to hold a password, a key or the like."""
    return SECRET.search(text) is not None
