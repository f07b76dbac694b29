"""A plugin in the style of hermes-agent's, run by the bridge, for the contract suite."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from holdfast.memory import MemoryProvider
from holdfast.providers.hermes import HermesProvider
from holdfast.testing import ProviderCase
from holdfast.testing.provider_case import Health, NotOffered

JOTTER = Path(__file__).parents[1] / "hermes" / "jotter"


class HermesCase(ProviderCase):
    """Its backend is down when a folder stands where its file was.

    Each comes in the other's place in one step: the plugin may write at any moment.
    """

    def make(self) -> MemoryProvider:
        return HermesProvider(JOTTER, folder=self.folder)

    def config(self) -> Mapping[str, str]:
        return {"api_key": "k"}

    def stored(self) -> Sequence[str]:
        file = self.folder / "hermes" / "jotter.jsonl"
        if not file.is_file():
            return []
        lines = file.read_text(encoding="utf-8").splitlines()
        return [text for _, text in map(json.loads, lines)]

    def set_health(self, health: Health) -> None:
        file, away = self.folder / "hermes" / "jotter.jsonl", self.folder / "away"
        if health == "down":
            away.hardlink_to(file)
            folder = self.folder / "a folder"
            folder.symlink_to(self.folder)
            folder.replace(file)
        elif health == "well":
            away.replace(file)
        else:
            raise NotOffered("a file is neither slow nor wedged")
