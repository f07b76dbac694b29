"""Keeps the token that clients of a server must show: in a file that only its owner may read."""

import os
import secrets
from pathlib import Path

from holdfast.core.errors import SettingsInvalid
from holdfast.core.secret import Secret


def stored_token(file: Path) -> Secret:
    """The token from a file that only its owner may read; the first start makes it."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as fresh:
            token = secrets.token_urlsafe(32)
            fresh.write(token)
        return Secret(token)
    except FileExistsError:
        pass
    except OSError as cause:
        raise SettingsInvalid([(str(file), f"the token can't be kept there: {cause.strerror}")]) from cause
    try:
        file.chmod(0o600)
        token = file.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as cause:
        raise SettingsInvalid([(str(file), f"the token can't be read: {cause}")]) from cause
    if not token:
        raise SettingsInvalid([(str(file), "holds no token; delete the file, and the next start makes one")])
    return Secret(token)
