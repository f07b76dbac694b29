"""The settings, as one frozen tree. `wiring.py` parses it once; a class receives only its slice.

Unknown keys fail with the key's name.
"""

from pydantic import BaseModel, ConfigDict, Field, field_validator


class Slice(BaseModel):
    """A part of the settings: frozen, and nothing unknown in it."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class StoreSettings(Slice):
    """Where conversations are kept."""

    url: str = Field(
        default="",
        repr=False,  # it may hold a password
        description="sqlite:///PATH or postgresql://HOST/DATABASE; empty: in the data folder",
    )
    patience_s: float = Field(
        default=30.0,
        gt=0,
        le=86_400,
        description="how long a call waits for another process that holds the store",
    )


class ExitSettings(Slice):
    """How the program ends."""

    watchdog_s: float = Field(
        default=30.0, gt=0, le=86_400, description="how long clean-up may take before the process is ended"
    )


class MemorySettings(Slice):
    """What is remembered in essence, and by whom."""

    providers: tuple[str, ...] = Field(
        default=("local",),
        description="names of installed providers or module:Class, with commas; empty: none",
    )
    plugins: str = Field(
        default="", description="a folder with more providers; empty: memory_providers in the data folder"
    )
    drain_s: float = Field(
        default=5.0, ge=0, le=86_400, description="how long all providers together may take at the end"
    )
    recall_s: float = Field(
        default=2.0, ge=0, le=86_400, description="how long a turn waits for what is remembered"
    )

    @field_validator("providers", mode="before")
    @classmethod
    def _split(cls, given: object) -> object:
        """A variable holds the names in one text."""
        if not isinstance(given, str):
            return given
        return tuple(name for each in given.split(",") if (name := each.strip()))


class Settings(Slice):
    """Everything that can be set."""

    store: StoreSettings = StoreSettings()
    exit: ExitSettings = ExitSettings()
    memory: MemorySettings = MemorySettings()
