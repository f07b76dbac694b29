"""The tools of the agent: their contract, approval by a person, and the built-in tools.

Read `contract.py` first, then `decorator.py` (`@tool`) and `toolbox.py`, which creates the tools of an agent.
"""
