"""The small model and its tokenizer: as the model was trained, and near for what means the same."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.providers.local import MiniLM
from holdfast.providers.local.embedding import missing_packages
from holdfast.providers.local.wordpiece import token_ids, vocabulary

needs_the_extra = pytest.mark.skipif(bool(missing_packages()), reason="the extra embeddings is not installed")


def pieces(text: str, limit: int = 256) -> list[str]:
    names = {number: piece for piece, number in vocabulary().items()}
    return [names[number] for number in token_ids(text, limit)]


@needs_the_extra
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hello, World!", ["hello", ",", "world", "!"]),
        ("unaffable", ["una", "##ffa", "##ble"]),
        ("Café naïve", ["cafe", "naive"]),
        ("don't", ["don", "'", "t"]),
        ("東京", ["東", "京"]),
        ("a\x00b\u200bc", ["abc"]),
        ("x" * 101, ["[UNK]"]),
        ("[SEP] is no mark", ["[", "sep", "]", "is", "no", "mark"]),
        ("half a pair: \ud83d", ["half", "a", "pair", ":"]),
        ("", []),
    ],
)
def test_text_is_cut_as_the_model_was_trained(text: str, expected: list[str]) -> None:
    assert pieces(text) == ["[CLS]", *expected, "[SEP]"]


@needs_the_extra
def test_a_long_text_is_cut_to_the_limit() -> None:
    assert len(pieces("word " * 1000, limit=16)) == 16
    assert pieces("word " * 1000, limit=16)[-1] == "[SEP]"


@needs_the_extra
def test_what_means_the_same_is_nearer_than_what_does_not() -> None:
    dog, puppy, tax = MiniLM().embed(["My dog ran away", "The puppy escaped", "Taxes are due in April"])
    assert dog @ puppy > 0.5 > dog @ tax


@needs_the_extra
def test_a_text_has_about_the_same_vector_alone_and_in_company() -> None:
    model = MiniLM()
    texts = ["quite short", "a much longer text about the weather in the mountains " * 5, "日本語 🙂"]
    together = model.embed(texts)
    for text, row in zip(texts, together, strict=True):
        assert float(model.embed([text])[0] @ row) > 0.96


@needs_the_extra
def test_no_texts_make_no_vectors() -> None:
    assert len(MiniLM().embed([])) == 0


@needs_the_extra
def test_the_runtime_of_the_model_reports_nothing_and_leaves_no_files(tmp_path: Path) -> None:
    """Its telemetry writes a device's id and a database into the cache, and sends them when it can."""
    program = "from holdfast.providers.local import MiniLM; print(MiniLM().embed(['hello']).shape)"
    folders = dict.fromkeys(("HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"), str(tmp_path))
    environment = {**os.environ, **folders}
    environment.pop("ORT_DISABLE_TELEMETRY", None)
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("(1, 384)\n", "")
    assert list(tmp_path.rglob("*")) == []
