"""The environment for child processes: the program's environment without its secrets.

A model reads the output of commands, so a key in the environment could get into the conversation. Variables
that change how the shell reads a command line are removed too, because `command_parts.py` must read it the
same way.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path

from holdfast.tools.process_tree import MARK

# As whole words of a name, so that KEYBOARD and TOKENIZERS_PARALLELISM stay.
SECRET_WORDS = frozenset(
    {
        *("KEY", "KEYS", "APIKEY", "TOKEN", "TOKENS", "PASSWORD", "PASSWD", "PASS", "PWD", "PASSPHRASE"),
        *("CREDENTIAL", "CREDENTIALS", "PAT", "AUTH", "COOKIE", "DSN"),
    }
)
SECRET_PARTS = ("SECRET", "PASSWORD", "PASSWD", "HOLDFAST_", "APIKEY", "PRIVATE_KEY")
# SSH_AUTH_SOCK leads to an agent that never gives out its keys; MARK identifies a command's processes.
HARMLESS = frozenset({"PWD", "OLDPWD", "SSH_AUTH_SOCK", MARK})
# The URL of a service with a user name and a password.
PASSWORD_IN_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://[^/\s:@]*:[^/\s@]+@", re.IGNORECASE)
PROXY = re.compile(r"(?:https?|all|ftp|no)_proxy", re.IGNORECASE)
# Each of these names code that runs before a command, or changes how the shell reads it.
LOADED = frozenset({"BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS", "LD_PRELOAD", "LD_AUDIT"})
LOCALES = ("LC_ALL", "LC_CTYPE", "LANG")
# Locales in which a byte below 128 is always ASCII. In others a quote or a backslash may be part of a letter.
PLAIN_LOCALE = re.compile(r"(?:C|POSIX)?|.*\.utf-?8(?:@.*)?", re.IGNORECASE)
# No person pages through the output or types a password.
UNATTENDED = {"TERM": "dumb", "PAGER": "cat", "GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0"}


def is_secret(name: str, value: str) -> bool:
    """Whether a variable must not reach child processes."""
    upper = name.upper()
    if upper in HARMLESS:
        return False
    if any(part in upper for part in SECRET_PARTS) or SECRET_WORDS & set(re.split(r"[^A-Z0-9]+", upper)):
        return True
    return bool(PASSWORD_IN_ADDRESS.search(value)) and not PROXY.fullmatch(name)


def child_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The part of `environment` that commands see."""
    kept = {
        name: value
        for name, value in environment.items()
        if name not in LOADED and not is_secret(name, value)
    }
    if "PATH" in kept:
        # With a relative folder in PATH, a file of the workspace could replace a program.
        kept["PATH"] = os.pathsep.join(
            each for each in kept["PATH"].split(os.pathsep) if Path(each).is_absolute()
        )
    locale = next((kept[name] for name in LOCALES if kept.get(name)), "")
    if not PLAIN_LOCALE.fullmatch(locale):
        kept["LC_ALL"] = "C.UTF-8"
    return {**kept, **UNATTENDED}
