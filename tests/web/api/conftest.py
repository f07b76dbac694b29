"""Fixtures for the HTTP API: both engines, and a server of the test's own."""

from tests.agent.conftest import db, store_url, wait
from tests.sessions.conftest import postgres

__all__ = ["db", "postgres", "store_url", "wait"]
