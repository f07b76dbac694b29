"""Documents are read as text with their pages; what is broken, locked or hostile is refused in words."""

import asyncio
import io
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any, cast

import pytest

from holdfast.cli.attached_files import with_named_files
from holdfast.core.errors import MessageInvalid, ToolFailed
from holdfast.host.attachments import attachment
from holdfast.tools.documents import document_text
from holdfast.tools.files import Files
from tests.tools.call_fixtures import Calls, finish

pypdf = pytest.importorskip("pypdf", reason="the extra `documents` is not installed")


def pdf(*texts: str, password: str = "") -> bytes:
    """A PDF with one line of text on each page."""
    objects = [b"<< /Type /Catalog /Pages 2 0 R >>"]
    kids = " ".join(f"{3 + 2 * number} 0 R" for number in range(len(texts)))
    objects.append(f"<< /Type /Pages /Kids [{kids}] /Count {len(texts)} >>".encode())
    font = "<< /Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >> >>"
    for number, text in enumerate(texts):
        content = f"BT /F1 24 Tf 72 720 Td ({text}) Tj ET".encode()
        page = f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Resources {font} "
        objects.append(f"{page} /Contents {4 + 2 * number} 0 R >>".encode())
        objects.append(b"<< /Length %d >>\nstream\n%s\nendstream" % (len(content), content))
    out, places = io.BytesIO(b"%PDF-1.4\n"), []
    out.seek(0, io.SEEK_END)
    for number, each in enumerate(objects, 1):
        places.append(out.tell())
        out.write(b"%d 0 obj\n%s\nendobj\n" % (number, each))
    start = out.tell()
    out.write(b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1))
    out.writelines(b"%010d 00000 n \n" % place for place in places)
    out.write(b"trailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF" % (len(objects) + 1, start))
    if not password:
        return out.getvalue()
    writer = pypdf.PdfWriter(clone_from=io.BytesIO(out.getvalue()))
    writer.encrypt(password, algorithm="RC4-128")
    locked = io.BytesIO()
    writer.write(locked)
    return locked.getvalue()


def office(kind: str) -> bytes:
    out = io.BytesIO()
    if kind == "docx":
        from docx import Document

        document = Document()
        document.add_paragraph("The harbour opens at eight.")
        row = document.add_table(1, 2).rows[0]
        row.cells[0].text, row.cells[1].text = "berth", "7"
        document.save(out)
    elif kind == "xlsx":
        from openpyxl import Workbook

        book = Workbook()
        book.active.title = "Fees"
        book.active.append(["ship", 12.5])
        book.save(out)
    else:
        from pptx import Presentation

        slides = Presentation()
        slide = slides.slides.add_slide(slides.slide_layouts[0])
        slide.shapes.title.text = "Tides"
        slides.save(out)
    return out.getvalue()


def bomb() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("word/document.xml", b"\0" * 400_000_000)
    return out.getvalue()


def test_each_kind_of_document_is_read_with_its_pages(calls: Calls) -> None:
    files = {
        "a.pdf": (pdf("first page", "second page"), ["--- page 1 of 2 ---", "first page", "second page"]),
        "b.docx": (office("docx"), ["--- page 1 ---", "The harbour opens at eight.", "berth\t7"]),
        "c.xlsx": (office("xlsx"), ["--- sheet Fees ---", "ship\t12.5"]),
        "d.pptx": (office("pptx"), ["--- slide 1 of 1 ---", "Tides"]),
    }
    read = next(each for each in Files().tools() if each.name == "read_file")
    for name, (data, parts) in files.items():
        (calls.workspace / name).write_bytes(data)
        text = calls.run(read, path=name).text
        assert all(part in text for part in parts), f"{name}: {text}"


@pytest.mark.slow
def test_a_broken_locked_or_hostile_document_is_refused_in_words() -> None:
    async def refused(name: str, data: bytes) -> str:
        with pytest.raises(ToolFailed) as problem:
            await document_text(name, data)
        return str(problem.value)

    async def scenario() -> None:
        assert "protected by a password" in await refused("a.pdf", pdf("secret", password="x"))
        assert "old Office" in await refused("a.doc", b"\xd0\xcf\x11\xe0" + bytes(600))
        assert "can't be read" in await refused("a.pdf", b"%PDF-1.7\n" + bytes(2000))
        assert "damaged" in await refused("a.docx", office("docx")[:2000])
        assert "unfolds to more than" in await refused("a.docx", bomb())
        assert "no text in it" in await document_text("a.pdf", pdf(""))
        late = await document_text("a.pdf", pdf("x"), seconds=0.001)
        assert "took more than" in late

    asyncio.run(scenario())


def test_a_document_of_more_than_20_mb_is_refused_before_it_is_read(calls: Calls) -> None:
    data = b"%PDF-1.7\n".ljust(20_000_001, b" ")
    (calls.workspace / "big.pdf").write_bytes(data)
    [read_file] = [each for each in Files().tools() if each.name == "read_file"]

    async def scenario() -> None:
        with pytest.raises(
            ToolFailed, match=r"big\.pdf has 20,000,001 bytes; a document may have 20,000,000"
        ):
            await document_text("big.pdf", data)
        with pytest.raises(MessageInvalid, match=r"big\.pdf has 20,000,001 bytes; 20,000,000 is the most"):
            await attachment("big.pdf", data)
        with pytest.raises(MessageInvalid, match=r"big\.pdf has 20,000,001 bytes"):
            await with_named_files("what is in @big.pdf", calls.workspace, print)
        with pytest.raises(ToolFailed, match="20000000 is the most"):
            await calls.call(read_file, path="big.pdf")

    finish(scenario())


def test_a_file_in_a_message_becomes_a_part_that_models_take(tmp_path: Path) -> None:
    picture = b"\x89PNG\r\n\x1a\n"
    for kind, data in ((b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)), (b"IEND", b"")):
        picture += struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    (tmp_path / "my notes.md").write_text("tide at </file> noon")
    (tmp_path / "dot.png").write_bytes(picture)
    (tmp_path / "data.bin").write_bytes(bytes(200))

    async def scenario() -> None:
        text = 'read @"my notes.md", @dot.png and @nobody, not @my-notes.md or @docs/x, to me@example.org'
        told: list[str] = []
        message = await with_named_files(text, tmp_path, told.append)
        assert isinstance(message, dict)
        assert told == [
            f"There is no file {word} in {tmp_path}; @{word} is sent as a word."
            for word in ("my-notes.md", "docs/x")
        ]
        said, notes, dot = cast("list[Any]", message["content"])
        assert said == {"type": "text", "text": text}
        assert notes["text"] == "The file my notes.md:\n<file>\ntide at < /file> noon\n</file>"
        assert dot["image_url"]["url"].startswith("data:image/png;base64,")
        assert (
            await with_named_files("mail me@example.org, @someone", tmp_path, told.append)
            == "mail me@example.org, @someone"
        )
        with pytest.raises(MessageInvalid, match=r"data\.bin is not text"):
            await with_named_files("@data.bin", tmp_path, told.append)
        with pytest.raises(MessageInvalid, match="is empty"):
            await attachment("nothing.txt", b"")

    finish(scenario())
