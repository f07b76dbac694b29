"""The settings, as one frozen tree. `wiring.py` parses it once; a class receives only its slice.

Unknown keys fail with the key's name.
"""

from pydantic import BaseModel, ConfigDict, Field


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


class Settings(Slice):
    """Everything that can be set."""

    store: StoreSettings = StoreSettings()
    exit: ExitSettings = ExitSettings()
