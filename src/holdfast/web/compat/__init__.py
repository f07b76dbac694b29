"""`/v1`: what clients of OpenAI's API speak, on the same conversations. Read `turns.py` first."""
