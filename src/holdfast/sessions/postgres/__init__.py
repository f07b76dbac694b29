"""The PostgreSQL engine, for many processes and many hosts. Needs the extra `postgres`."""

from holdfast.sessions.postgres.engine import PostgresEngine

__all__ = ["PostgresEngine"]
