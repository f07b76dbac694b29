"""Fixtures for the host: both engines."""

from tests.agent.conftest import db, store_url, wait
from tests.host.hanging_provider import wedged
from tests.sessions.conftest import postgres

__all__ = ["db", "postgres", "store_url", "wait", "wedged"]
