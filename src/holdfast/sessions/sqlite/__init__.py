"""The SQLite engine: one writer thread with group commit, and readers on their own connections."""

from holdfast.sessions.sqlite.engine import SqliteEngine

__all__ = ["SqliteEngine"]
