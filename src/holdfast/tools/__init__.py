"""What the agent can do: the contract, approval, and the built-in tools. Read `contract.py` first."""
