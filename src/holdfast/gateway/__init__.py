"""Chat platforms as a surface of the host. Read `contract.py` first, then `account.py`."""
