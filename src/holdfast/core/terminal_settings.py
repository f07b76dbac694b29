"""The settings of the terminal: its colours, its keys, and whether something moves while a turn runs."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

ThemeName = Literal["auto", "dark", "light", "none"]
KeyStyle = Literal["emacs", "vi"]


class TerminalSettings(BaseModel):
    """How a chat looks on a terminal."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    theme: ThemeName = Field(
        default="auto",
        description="colours for a dark or a light background, or none; auto: as COLORFGBG and NO_COLOR say",
    )
    keys: KeyStyle = Field(default="emacs", description="the keys of the input line: emacs or vi")
    spinner: bool = Field(default=True, description="whether a sign turns while a turn runs")
