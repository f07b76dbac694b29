"""Measures the session store beside a bare `sqlite3` control: `python -m bench`.

Start at `__main__.py` for the order of things, then `stores.py` for what is compared. Ratios count, not
times: the two take turns in one run (`rounds.py`), so the machine's mood falls on both.
"""
