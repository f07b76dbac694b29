"""The colours of a chat: one `Look` for dark, one for light backgrounds, and one without any colour.

Text is styled by what it is (`quiet`, `added`, `heading`); a look says how that is drawn. Read it first when
a colour is to change.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from prompt_toolkit.output import ColorDepth
from prompt_toolkit.styles import Style
from rich.theme import Theme

from holdfast.core.terminal_settings import ThemeName

LIGHT_BACKGROUNDS = ("7", "15")

SHARED = {
    "said": "bold",
    "quiet": "dim",
    "heading": "bold",
    "title": "bold underline",
    "strong": "bold",
    "emphasis": "italic",
    "struck": "strike",
    "quoted": "italic",
    "thought": "dim italic",
    "context": "dim",
    "address": "underline",
}
DARK = {
    "you": "bold green",
    "ask": "bold yellow",
    "danger": "bold red",
    "warning": "yellow",
    "failure": "red",
    "success": "green",
    "tool": "cyan",
    "code": "cyan",
    "formula": "magenta",
    "bullet": "cyan",
    "added": "green",
    "removed": "red",
    "place": "cyan",
    "title": "bold underline cyan",
    "heading": "bold cyan",
    "address": "underline bright_blue",
}
# Yellow, cyan and bright colours can't be read on white.
LIGHT = {
    "you": "bold color(28)",
    "ask": "bold color(130)",
    "danger": "bold color(124)",
    "warning": "color(130)",
    "failure": "color(124)",
    "success": "color(28)",
    "tool": "color(25)",
    "code": "color(25)",
    "formula": "color(90)",
    "bullet": "color(25)",
    "added": "color(28)",
    "removed": "color(124)",
    "place": "color(25)",
    "title": "bold underline color(25)",
    "heading": "bold color(25)",
    "quiet": "color(243)",
    "context": "color(243)",
    "thought": "italic color(243)",
    "address": "underline color(25)",
}
# Without colours a sign or a weight says the same.
PLAIN = {
    "you": "bold",
    "ask": "bold",
    "danger": "bold reverse",
    "warning": "bold",
    "failure": "bold",
    "success": "",
    "tool": "bold",
    "code": "bold",
    "formula": "italic",
    "bullet": "",
    "added": "bold",
    "removed": "dim",
    "place": "dim",
}
PROMPTS = {
    "dark": {
        "you": "bold ansigreen",
        "ask": "bold ansiyellow",
        "live": "ansibrightblack",
        "bottom-toolbar": "noreverse ansibrightblack",
    },
    "light": {
        "you": "bold #008700",
        "ask": "bold #af5f00",
        "live": "#767676",
        "bottom-toolbar": "noreverse #767676",
    },
    "none": {"you": "bold", "ask": "bold", "live": "", "bottom-toolbar": "noreverse"},
}


@dataclass(frozen=True, slots=True)
class Look:
    """How everything is drawn."""

    name: str
    styles: Theme
    prompt: Style
    code: str
    """The theme of the highlighter for code."""

    @property
    def has_colours(self) -> bool:
        return self.name != "none"

    @property
    def depth(self) -> ColorDepth | None:
        """The colours that the prompt may use; None: as many as the terminal has."""
        return None if self.has_colours else ColorDepth.DEPTH_1_BIT


def look_of(theme: ThemeName, environment: Mapping[str, str]) -> Look:
    """The look that a setting names; `auto` asks the environment."""
    name = _found(environment) if theme == "auto" else theme
    own = {"dark": DARK, "light": LIGHT, "none": PLAIN}[name]
    code = "ansi_light" if name == "light" else "ansi_dark"
    return Look(name, Theme({**SHARED, **own}), Style.from_dict(PROMPTS[name]), code)


def _found(environment: Mapping[str, str]) -> str:
    if environment.get("NO_COLOR"):
        return "none"
    # Set by several terminals, as FOREGROUND;BACKGROUND.
    background = environment.get("COLORFGBG", "").rpartition(";")[2]
    return "light" if background in LIGHT_BACKGROUNDS else "dark"
