"""`replace_files`: writes small files as a whole, several at once."""

import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path


def replace_files(texts: Mapping[Path, str], mode: int | None = None) -> None:
    """Write every file anew; a reader sees the old or the new one. Only their owner can read them.

    None is replaced before all are on disk. What fails raises `OSError` and leaves nothing behind.
    """
    drafts: dict[Path, Path] = {}
    with ExitStack() as clean_up:
        for file, text in texts.items():
            file.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile("w", dir=file.parent, delete=False, encoding="utf-8") as draft:
                drafts[file] = Path(draft.name)
                clean_up.callback(drafts[file].unlink, missing_ok=True)
                draft.write(text)
            if mode is not None:
                drafts[file].chmod(mode)
        for file, draft_path in drafts.items():
            draft_path.replace(file)
