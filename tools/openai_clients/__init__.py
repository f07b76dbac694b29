"""Tries OpenAI's clients against a real `holdfast web`. Read `__main__.py` first."""
