"""The built-in memory providers, and how a provider is found by its name.

Each provider is a folder that implements `memory/contract.py`. Read that first, then `local/provider.py`, the
default, and `loader.py`. Only `wiring` imports this package: it knows which providers are in use.
"""
