"""The environment that child processes get: that of the program, without its secrets.

A model reads what a command prints, so a key in a child's environment is a key in the conversation.
"""

import re
from collections.abc import Mapping

# As whole words of a name, so that KEYBOARD and TOKENIZERS_PARALLELISM stay.
SECRET_WORDS = frozenset(
    {
        *("KEY", "KEYS", "APIKEY", "TOKEN", "TOKENS", "PASSWORD", "PASSWD", "PASS", "PWD", "PASSPHRASE"),
        *("CREDENTIAL", "CREDENTIALS", "PAT", "AUTH", "COOKIE", "DSN"),
    }
)
SECRET_PARTS = ("SECRET", "PASSWORD", "PASSWD", "HOLDFAST_", "APIKEY", "PRIVATE_KEY")
HARMLESS = frozenset({"PWD", "OLDPWD"})
# The address of a service with a user and a password in it.
PASSWORD_IN_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://[^/\s:@]*:[^/\s@]+@", re.IGNORECASE)
PROXY = re.compile(r"(?:https?|all|ftp|no)_proxy", re.IGNORECASE)
# Nobody is there to page through output or to type a password.
UNATTENDED = {"TERM": "dumb", "PAGER": "cat", "GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0"}


def is_secret(name: str, value: str) -> bool:
    """Whether a variable is kept from child processes."""
    upper = name.upper()
    if upper in HARMLESS:
        return False
    if any(part in upper for part in SECRET_PARTS) or SECRET_WORDS & set(re.split(r"[^A-Z0-9]+", upper)):
        return upper != "SSH_AUTH_SOCK"  # a way to an agent that keeps its keys to itself
    return bool(PASSWORD_IN_ADDRESS.search(value)) and not PROXY.fullmatch(name)


def child_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """What commands see of `environment`."""
    kept = {name: value for name, value in environment.items() if not is_secret(name, value)}
    return {**kept, **UNATTENDED}
