"""The `holdfast` command. One file per command; read `contract.py` for what the exit codes mean."""
