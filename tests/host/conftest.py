"""Fixtures for the host: both engines."""

from tests.agent.conftest import db, store_url, wait
from tests.host.hanging_provider import wedged

__all__ = ["db", "store_url", "wait", "wedged"]
