"""Reads the text of a PDF or Office document, in a separate process with little memory and time.

A document may be hostile: a few kilobytes that unfold to gigabytes, or that keep a reader busy for ever. A
process can be limited and killed. This file is run by its path. Standard input is one line of JSON and then
the document; findings are lines of JSON, one for each page, sheet or slide.
"""

import io
import json
import resource
import sys
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

LIMITS = {resource.RLIMIT_AS: 1_500_000_000, resource.RLIMIT_CPU: 40, resource.RLIMIT_FSIZE: 0}
"""Bytes of memory, seconds of computing, and bytes of a file that it writes."""
UNPACKED_BYTES = 300_000_000
MAX_ENTRIES = 20_000
MAX_ROWS = 20_000
MAX_PAGES = 5_000
OFFICE = {"word/": "docx", "xl/": "xlsx", "ppt/": "pptx"}

Page = tuple[str, str]
"""What the page is called, such as "page 3", and its text."""


class Unusable(Exception):
    """The document can't be read; the message says why."""


def kind_of(data: bytes) -> str:
    """`pdf`, `docx`, `xlsx` or `pptx`."""
    if data.lstrip()[:5] == b"%PDF-":
        return "pdf"
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = archive.infolist()
    except zipfile.BadZipFile as cause:
        raise Unusable("it is damaged: it is neither a PDF nor a whole Office document") from cause
    if len(entries) > MAX_ENTRIES or sum(each.file_size for each in entries) > UNPACKED_BYTES:
        raise Unusable(f"it unfolds to more than {UNPACKED_BYTES // 1_000_000} MB")
    for start, kind in OFFICE.items():
        if any(each.filename.startswith(start) for each in entries):
            return kind
    raise Unusable("it is a zip file without an Office document in it")


def pdf_pages(data: bytes) -> Iterator[Page]:
    from pypdf import PdfReader
    from pypdf.errors import PdfReadError

    try:
        reader = PdfReader(io.BytesIO(data))
        if reader.is_encrypted and not reader.decrypt(""):
            raise Unusable("it is protected by a password")
        count = len(reader.pages)
        for number in range(min(count, MAX_PAGES)):
            yield f"page {number + 1} of {count}", reader.pages[number].extract_text() or ""
    except PdfReadError as cause:
        raise Unusable(f"it is no PDF that can be read: {cause}") from cause


def docx_pages(data: bytes) -> Iterator[Page]:
    """By the page breaks of the program that wrote it, where it left any."""
    from docx import Document
    from docx.table import Table

    number, lines = 1, []
    for each in Document(io.BytesIO(data)).iter_inner_content():
        if isinstance(each, Table):
            lines += ["\t".join(cell.text for cell in row.cells) for row in each.rows]
            continue
        if each.rendered_page_breaks and lines:
            yield f"page {number}", "\n".join(lines)
            lines = []
        number += len(each.rendered_page_breaks)
        lines.append(each.text)
    yield f"page {number}", "\n".join(lines)


def xlsx_pages(data: bytes) -> Iterator[Page]:
    from openpyxl import load_workbook

    book = load_workbook(io.BytesIO(data), read_only=True, data_only=True)
    for sheet in book.worksheets:
        sheet.reset_dimensions()
        lines = []
        for number, row in enumerate(sheet.iter_rows(values_only=True), 1):
            if number > MAX_ROWS:
                lines.append(f"[only the first {MAX_ROWS} rows]")
                break
            lines.append("\t".join("" if cell is None else str(cell) for cell in row).rstrip("\t"))
        yield f"sheet {sheet.title}", "\n".join(lines)


def pptx_pages(data: bytes) -> Iterator[Page]:
    from pptx import Presentation

    slides = Presentation(io.BytesIO(data)).slides
    for number, slide in enumerate(slides, 1):
        lines = [text for shape in slide.shapes for text in shape_lines(shape)]
        if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
            lines.append(f"[notes] {slide.notes_slide.notes_text_frame.text}")
        yield f"slide {number} of {len(slides)}", "\n".join(lines)


def shape_lines(shape: Any) -> Iterator[str]:  # noqa: ANN401 - python-pptx says no types
    if shape.has_text_frame and shape.text_frame.text.strip():
        yield shape.text_frame.text
    if getattr(shape, "has_table", False):
        for row in shape.table.rows:
            yield "\t".join(cell.text for cell in row.cells)
    for inner in getattr(shape, "shapes", ()):
        yield from shape_lines(inner)


READERS = {"pdf": pdf_pages, "docx": docx_pages, "xlsx": xlsx_pages, "pptx": pptx_pages}


def write_line(found: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(found) + "\n")
    sys.stdout.flush()


def main() -> None:
    for limit, most in LIMITS.items():
        with suppress(ValueError, OSError):  # not every system has each
            resource.setrlimit(limit, (most, most))
    left = int(json.loads(sys.stdin.buffer.readline())["characters"])
    data = sys.stdin.buffer.read()
    try:
        for name, text in READERS[kind_of(data)](data):
            write_line({"page": name, "text": text[:left]})
            left -= len(text)
            if left <= 0:
                write_line({"more": True})
                return
        write_line({"end": True})
    except Unusable as cause:
        write_line({"problem": str(cause)})
    except ImportError as cause:
        write_line({"missing": str(cause.name)})
    except MemoryError:
        write_line({"problem": "it takes more memory than a document may"})
    except Exception as cause:  # noqa: BLE001 - whatever a reader raises for a broken document
        write_line({"problem": f"it can't be read: {type(cause).__name__}: {str(cause)[:200]}"})


if __name__ == "__main__":
    main()
