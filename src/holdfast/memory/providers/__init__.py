"""The built-in memory providers, each one file or one small folder."""
