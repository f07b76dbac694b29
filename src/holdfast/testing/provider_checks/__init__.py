"""The checks of the contract suite, run by `pytest --provider`; `provider_suite.py` is the plugin."""
