"""Language models: the contract and its adapters. Read `contract.py` first."""
