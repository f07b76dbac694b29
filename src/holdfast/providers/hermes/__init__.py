"""Runs memory plugins written for hermes-agent, unchanged and without it. Read `provider.py` first."""

from holdfast.providers.hermes.plugin_loader import is_hermes_plugin
from holdfast.providers.hermes.provider import HermesProvider

__all__ = ["HermesProvider", "is_hermes_plugin"]
