"""What the agent can do: the contract, approval, and the built-in tools.

Read `contract.py` first, then `decorator.py` (`@tool`) and `toolbox.py`, which puts the tools together.
"""
