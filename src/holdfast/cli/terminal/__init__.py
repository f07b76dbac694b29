"""The conversation on a terminal. Read `chat.py` first: prompt, view and session come together there."""
