"""Moving a whole store from one database to another. Read `store_move.py` first."""

from holdfast.sessions.moving.store_move import MovedRows, StoreMove, unlock_store

__all__ = ["MovedRows", "StoreMove", "unlock_store"]
