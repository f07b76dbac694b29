"""Bringing a store's schema up to date, with a plan beforehand. Read `upgrade.py` first."""

from holdfast.sessions.upgrading.upgrade import PlannedStep, StoreUpgrade, UpgradePlan

__all__ = ["PlannedStep", "StoreUpgrade", "UpgradePlan"]
