"""The surface for editors: the Agent Client Protocol over standard input and output. See `contract.py`."""
