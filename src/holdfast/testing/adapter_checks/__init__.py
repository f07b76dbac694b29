"""The checks of the contract suite for chat adapters; `adapter_suite.py` runs them."""
