"""An installed package with two chat platforms: `hanging` never answers, and `sound` needs no network."""

from pathlib import Path

from holdfast.gateway.platforms import GROUP

PLATFORMS = """
from holdfast.gateway.platforms import Platform
from holdfast.testing.memory_platform import MemoryPlatform

SOUND = Platform("Sound", (), "Ask nobody.", lambda config, folder: MemoryPlatform().adapter())
"""
HANGING = """
import threading
from holdfast.gateway.platforms import Platform

def hang(what):
    if what == {hangs!r}:
        threading.Event().wait()

hang("import")
HANGING = Platform("Hanging", (), "Ask nobody.", lambda config, folder: hang("factory"))
"""
ENTRY_POINTS = (
    f"[{GROUP}]\nhanging = hanging_platform_of_tests:HANGING\nsound = sound_platform_of_tests:SOUND\n"
)


def install_platforms(folder: Path, hangs: str) -> str:
    """Install it with what hangs, "import" or "factory"; returns the folder to add to Python's path."""
    facts = folder / "hanging_platforms-1.0.dist-info"
    facts.mkdir(parents=True)
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: hanging-platforms\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text(ENTRY_POINTS)
    (folder / "hanging_platform_of_tests.py").write_text(HANGING.format(hangs=hangs))
    (folder / "sound_platform_of_tests.py").write_text(PLATFORMS)
    return str(folder)
