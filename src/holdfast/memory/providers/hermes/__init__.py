"""Runs memory plugins written for hermes-agent, unchanged and without it. Read `provider.py` first."""

from holdfast.memory.providers.hermes.provider import HermesProvider
from holdfast.memory.providers.hermes.world import is_hermes_plugin

__all__ = ["HermesProvider", "is_hermes_plugin"]
