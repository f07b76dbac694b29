"""The plugin's file: one line for each thing."""

import json
from pathlib import Path


class Pages:
    def __init__(self, file: Path, stamp: str | None) -> None:
        self.file = file
        self.stamp = stamp

    def add(self, session: str, text: str) -> None:
        with self.file.open("a", encoding="utf-8") as out:
            out.write(json.dumps([session, f"{text} {self.stamp or ''}".rstrip()]) + "\n")

    def like(self, query: str) -> list[str]:
        words = {word.strip(".").lower() for word in query.split()}
        scored = [
            (len(words & {each.strip(".").lower() for each in text.split()}), text) for _, text in self.all()
        ]
        return [text for score, text in sorted(scored, key=lambda each: -each[0]) if score][:5]

    def all(self) -> list[tuple[str, str]]:
        if not self.file.exists():
            return []
        lines = self.file.read_text(encoding="utf-8").splitlines()
        return [(session, text) for session, text in map(json.loads, lines)]
