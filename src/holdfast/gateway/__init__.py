"""Chat platforms as a surface of the host. Read `contract.py` first, then `chat_account.py`.

The names here are for authors of adapters; docs/writing-an-adapter.md uses nothing else.
"""

from holdfast.core.secret import Secret
from holdfast.gateway.contract import (
    Adapter,
    AdapterTraits,
    Batch,
    Button,
    ChatFile,
    Command,
    FileTooLarge,
    Identity,
    Incoming,
    NotTaken,
    Outgoing,
    Place,
    Route,
    Sender,
    SendRefused,
    SignInRefused,
    SlowDown,
    TakenElsewhere,
    Unreachable,
)
from holdfast.gateway.platforms import Platform
from holdfast.memory.config import ConfigField, ProviderConfig

__all__ = [
    "Adapter",
    "AdapterTraits",
    "Batch",
    "Button",
    "ChatFile",
    "Command",
    "ConfigField",
    "FileTooLarge",
    "Identity",
    "Incoming",
    "NotTaken",
    "Outgoing",
    "Place",
    "Platform",
    "ProviderConfig",
    "Route",
    "Secret",
    "SendRefused",
    "Sender",
    "SignInRefused",
    "SlowDown",
    "TakenElsewhere",
    "Unreachable",
]
