"""Files that people send: pictures to the model, others into their own workspace, failures said."""

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from holdfast.core.messages import text_of
from holdfast.gateway.contract import Place
from holdfast.models.contract import Model, ModelRequest
from holdfast.process import run
from holdfast.sessions import SessionDB
from holdfast.testing import ScriptedModel
from holdfast.testing.memory_platform import MemoryPlatform
from tests.gateway.gateway_fixtures import ACCOUNT, a_gateway, let_in, traits, until_status

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def read_by(requests: list[Mapping[str, Any]]) -> Any:  # noqa: ANN401
    def script(_: str) -> Model:
        def answer(request: ModelRequest) -> str:
            requests.append(next(each for each in reversed(request.messages) if each["role"] == "user"))
            return "Thank you."

        return ScriptedModel([answer] * 9)

    return script


async def send(
    db: SessionDB, folder: Path, name: str, content: bytes, *, person: str = "ada", most: int = 1000
) -> Mapping[str, Any]:
    """What the model reads of a file that a person sends."""
    platform = MemoryPlatform(traits(max_download=most))
    place: Place = await platform.direct(person)
    requests: list[Mapping[str, Any]] = []
    async with a_gateway(db, platform, read_by(requests), folder=folder) as (_, host):
        await platform.send_file(place, person, name, content)
        await until_status(host, lambda now: now.posts == {"sent": 1})
    return requests[0]


def test_a_picture_is_shown_to_the_model(db: SessionDB, tmp_path: Path) -> None:
    let_in(db, "ada")
    message = run(send(db, tmp_path, "dot.png", PIXEL))
    (picture,) = [each for each in message["content"] if each["type"] == "image_url"]
    assert picture["image_url"]["url"].startswith("data:image/png;base64,")


def test_a_document_is_saved_in_the_workspace_of_its_sender(db: SessionDB, tmp_path: Path) -> None:
    let_in(db, "ada")
    message = run(send(db, tmp_path, "../../etc/pass wd.txt", b"hello"))
    (saved,) = (tmp_path / ACCOUNT / "person-ada").rglob("*.txt")
    assert saved.read_bytes() == b"hello"
    assert str(saved) in text_of(message)  # type: ignore[arg-type]
    assert saved.name.endswith("pass_wd.txt")


def test_a_file_that_is_too_large_is_said(db: SessionDB, tmp_path: Path) -> None:
    let_in(db, "ada")
    message = run(send(db, tmp_path, "big.bin", b"x" * 100, most=10))
    assert 'The file "big.bin" could not be taken' in text_of(message)  # type: ignore[arg-type]


def test_guests_send_no_files(db: SessionDB, tmp_path: Path) -> None:
    db.chat_people.put(ACCOUNT, "person-eve", "guest")
    message = run(send(db, tmp_path, "tool.sh", b"rm -rf /", person="eve"))
    assert "guests can't send files" in text_of(message)  # type: ignore[arg-type]
    assert not list(tmp_path.rglob("*.sh"))
