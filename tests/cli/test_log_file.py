"""The log file: it is kept, and it does not grow without end."""

import logging
from pathlib import Path

from holdfast.cli.logs import (
    BYTES,
    FACT_CHARACTERS,
    KEPT,
    TRACEBACK_CHARACTERS,
    FactsFormatter,
    LogFileHandler,
)

LINE = "x" * 10_000


def test_a_full_log_is_put_aside_and_only_so_many_are_kept(tmp_path: Path) -> None:
    file = tmp_path / "holdfast.log"
    log = LogFileHandler(file)
    record = logging.makeLogRecord({"msg": LINE})
    for _ in range((KEPT + 2) * BYTES // len(LINE)):
        log.handle(record)
    log.close()
    names = sorted(each.name for each in tmp_path.iterdir())
    assert names == ["holdfast.log", *(f"holdfast.log.{number}" for number in range(1, KEPT + 1))]
    assert all(each.stat().st_size <= BYTES for each in tmp_path.iterdir())


def test_a_log_that_was_full_at_the_start_is_put_aside_with_the_first_line(tmp_path: Path) -> None:
    file = tmp_path / "holdfast.log"
    file.write_text("x" * BYTES, encoding="utf-8")
    log = LogFileHandler(file)
    log.handle(logging.makeLogRecord({"msg": "fresh"}))
    log.close()
    assert file.read_text(encoding="utf-8") == "fresh\n"


def test_a_log_that_was_deleted_or_moved_away_goes_on_in_a_new_file_of_its_name(tmp_path: Path) -> None:
    file = tmp_path / "holdfast.log"
    log = LogFileHandler(file)
    record = logging.makeLogRecord({"msg": "line"})
    log.handle(record)
    for lose in (file.unlink, lambda: file.rename(tmp_path / "away")):
        lose()
        log.handle(record)
        assert "line" in file.read_text(encoding="utf-8")
    log.close()


def test_a_huge_fact_or_exception_is_cut_and_its_beginning_and_end_are_kept() -> None:
    failure = RuntimeError("the first words" + "x" * 5_000_000 + "the last words")
    facts = {"msg": "event", "exc_info": (RuntimeError, failure, None), "cause": "c" * 5_000_000}
    text = FactsFormatter("%(message)s").format(logging.makeLogRecord(facts))
    assert len(text) < FACT_CHARACTERS + TRACEBACK_CHARACTERS + 200
    assert text.startswith("event cause='ccc")
    assert "the first words" in text
    assert text.endswith("the last words")
    assert text.count("[cut here: ") == 2
