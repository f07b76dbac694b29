"""Fixtures for the chat platforms: one real Matrix server for each test worker."""

from tests.gateway.synapse_server import synapse

__all__ = ["synapse"]
