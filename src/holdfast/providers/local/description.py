"""How the built-in memory stands, in words for a person."""

from dataclasses import dataclass

from holdfast.core.distribution import install_command


@dataclass(frozen=True, slots=True)
class LocalDescription:
    """The state of the memory, for `doctor`."""

    path: str
    passages: int
    notes: int
    embeddings: str | None
    """The embedding model; None when recall works on full text alone."""
    missing_packages: tuple[str, ...]
    without_vector: int
    worker: str = ""
    """The state of the process that recalls; empty when there is none."""
    facts_state: str = ""
    """The state of the facts; empty when they are off."""

    @property
    def is_limited(self) -> bool:
        return self.embeddings is None

    def __str__(self) -> str:
        kept = f"{self.path}: {self.passages} passages and {self.notes} notes"
        if self.facts_state:
            kept = f"{kept}; {self.facts_state}"
        if self.embeddings is None:
            lacking = f" ({', '.join(self.missing_packages)} not installed)" if self.missing_packages else ""
            better = install_command("embeddings")
            return f"{kept}; recall by full text alone{lacking}. For better recall run: {better}"
        waiting = f"; {self.without_vector} wait for their vectors" if self.without_vector else ""
        worker = f"; {self.worker}" if self.worker else ""
        return f"{kept}; recall by full text and {self.embeddings}{waiting}{worker}"
