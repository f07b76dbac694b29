"""Plugins whose calls hang until a file is there, for tests of those who load them."""

from pathlib import Path

PLUGIN = """
import threading
from pathlib import Path
from holdfast.memory import MemoryProvider

GO = Path({go!r})
TURNS = Path({turns!r})

def hang(what):
    if what in {hangs!r}:
        tick = threading.Event()
        while not GO.exists():
            tick.wait(0.01)

hang("import")

class Hanging(MemoryProvider):
    def __init__(self):
        hang("constructor")

    @property
    def name(self):
        hang("name")
        return {name!r}

    def is_available(self):
        hang("is_available")
        return True

    def initialize(self, session_id, **kwargs):
        hang("initialize")

    def get_config_schema(self):
        hang("get_config_schema")
        return []

    def check(self, config):
        hang("check")
        return "it works"

    def get_tool_schemas(self):
        hang("get_tool_schemas")
        return []

    def system_prompt_block(self):
        hang("system_prompt_block")
        return "the block of the plugin"

    def prefetch(self, query, *, session_id=""):
        hang("prefetch")
        return ""

    def sync_turn(self, user_content, assistant_content, *, session_id="", messages=None):
        hang("sync_turn")
        with TURNS.open("a") as file:
            file.write(user_content + "\\n")

    def shutdown(self):
        hang("shutdown")
"""
AT_THE_START = ("import", "constructor", "name", "is_available", "get_config_schema", "get_tool_schemas")


class Plugin:
    """A plugin in a folder of plugins; it hangs in the named calls until it is let go."""

    def __init__(self, folder: Path, *hangs: str, name: str = "hanging") -> None:
        self.plugins = folder / "plugins"
        self.plugins.mkdir(parents=True)
        self._go = folder / "go"
        self._turns = folder / "turns"
        text = PLUGIN.format(go=str(self._go), turns=str(self._turns), hangs=hangs, name=name)
        (self.plugins / "hanging.py").write_text(text, encoding="utf-8")

    def let_go(self) -> None:
        self._go.touch()

    def turns(self) -> list[str]:
        """What it was told, in order."""
        return self._turns.read_text(encoding="utf-8").splitlines() if self._turns.exists() else []
