"""`/v1`: OpenAI's protocol on the same conversations. Read `api_turn.py` first."""
