"""The routes of `/api`, a file for each group; each is parse, one call on the host, render."""
