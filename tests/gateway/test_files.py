"""Files that people send: pictures to the model, others into their own workspace, failures said."""

import base64
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from holdfast.core.messages import text_of
from holdfast.core.secret import Secret
from holdfast.core.settings import GatewaySettings
from holdfast.gateway.contract import Place
from holdfast.models.contract import Model, ModelRequest
from holdfast.process import run
from holdfast.sessions import SessionDB
from holdfast.testing import Call, ScriptedModel
from holdfast.testing.memory_platform import MemoryPlatform
from holdfast.tools.chat_files import OUTGOING, ChatFiles
from tests.gateway.gateway_fixtures import ACCOUNT, SETTINGS, a_gateway, let_in, traits, until_status

pytestmark = pytest.mark.soak_cases("postgres")  # the store's own suite tries both engines

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
    db: SessionDB,
    folder: Path,
    file: tuple[str, bytes],
    *,
    person: str = "ada",
    most: int = 1000,
    settings: GatewaySettings = SETTINGS,
) -> Mapping[str, Any]:
    """What the model reads of a file that a person sends."""
    platform = MemoryPlatform(traits(max_download=most))
    place: Place = await platform.direct(person)
    requests: list[Mapping[str, Any]] = []
    opened = a_gateway(db, platform, read_by(requests), settings=settings, folder=folder)
    async with opened as (_, host):
        await platform.send_file(place, person, *file)
        await until_status(host, lambda now: now.posts == {"sent": 1})
    return requests[0]


def test_a_picture_is_shown_to_the_model(db: SessionDB, tmp_path: Path) -> None:
    let_in(db, "ada")
    message = run(send(db, tmp_path, ("dot.png", PIXEL)))
    (picture,) = [each for each in message["content"] if each["type"] == "image_url"]
    assert picture["image_url"]["url"].startswith("data:image/png;base64,")


def test_a_document_is_saved_in_the_workspace_of_its_sender(db: SessionDB, tmp_path: Path) -> None:
    let_in(db, "ada")
    message = run(send(db, tmp_path, ("../../etc/pass wd.txt", b"hello")))
    (saved,) = (tmp_path / ACCOUNT / "person-ada").rglob("*.txt")
    assert saved.read_bytes() == b"hello"
    assert str(saved) in text_of(message)  # type: ignore[arg-type]
    assert saved.name.endswith("pass_wd.txt")


def test_a_file_that_is_too_large_is_said(db: SessionDB, tmp_path: Path) -> None:
    let_in(db, "ada")
    message = run(send(db, tmp_path, ("big.bin", b"x" * 100), most=10))
    assert 'The file "big.bin" could not be taken' in text_of(message)  # type: ignore[arg-type]


def test_guests_send_no_files(db: SessionDB, tmp_path: Path) -> None:
    db.chat_people.put(ACCOUNT, "person-eve", "guest")
    message = run(send(db, tmp_path, ("tool.sh", b"rm -rf /"), person="eve"))
    assert "guests can't send files" in text_of(message)  # type: ignore[arg-type]
    assert not list(tmp_path.rglob("*.sh"))


@asynccontextmanager
async def a_transcription_server(
    status: int, said: str, heard: list[Mapping[str, Any]]
) -> AsyncIterator[str]:
    async def transcribe(request: web.Request) -> web.Response:
        form = await request.post()
        file = form["file"]
        assert isinstance(file, web.FileField)
        heard.append({**form, "file": file.file.read(), "key": request.headers["Authorization"]})
        return web.json_response({"text": said}, status=status)

    app = web.Application()
    app.add_routes([web.post("/v1/audio/transcriptions", transcribe)])
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        yield f"http://{host}:{port}/v1"
    finally:
        await runner.cleanup()


@pytest.mark.parametrize(
    ("status", "said", "read"),
    [
        (200, " Buy milk. ", "The person says in it:]\nBuy milk."),
        (
            500,
            "",
            "voice note that could not be transcribed: the transcription server answered with HTTP 500",
        ),
        (200, " ", "voice note that could not be transcribed: no words were found in it"),
    ],
)
def test_a_voice_note_is_read_where_a_server_is_set(
    db: SessionDB, tmp_path: Path, status: int, said: str, read: str
) -> None:
    let_in(db, "ada")
    heard: list[Mapping[str, Any]] = []

    async def scenario() -> Mapping[str, Any]:
        async with a_transcription_server(status, said, heard) as url:
            settings = GatewaySettings(
                debounce_s=0,
                transcription_url=url,
                transcription_model="small",
                transcription_key=Secret("the key"),
            )
            return await send(db, tmp_path, ("note.ogg", b"a voice"), settings=settings)

    message = text_of(run(scenario()))  # type: ignore[arg-type]
    assert read in message
    (saved,) = (tmp_path / ACCOUNT / "person-ada").rglob("*.ogg")
    assert str(saved) in message
    (asked,) = heard
    assert (asked["file"], asked["model"], asked["key"]) == (b"a voice", "small", "Bearer the key")


def test_a_voice_note_without_a_server_is_a_file(db: SessionDB, tmp_path: Path) -> None:
    let_in(db, "ada")
    message = run(send(db, tmp_path, ("note.ogg", b"a voice")))
    assert "voice note, not transcribed" in text_of(message)  # type: ignore[arg-type]


def test_the_agent_sends_files_of_its_workspace_to_the_chat(
    db: SessionDB, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it was when the agent sent it, and nothing from outside."""
    workspace, kept = tmp_path / "work", tmp_path / "data"
    workspace.mkdir()
    (workspace / "report.txt").write_bytes(b"all is well")
    (workspace / "large.bin").write_bytes(b"x" * 2000)
    (tmp_path / "secret.txt").write_bytes(b"a secret")
    monkeypatch.chdir(workspace)
    results: list[str] = []

    def script(_: str) -> Model:
        def end(request: ModelRequest) -> str:
            results.extend(text_of(each) for each in request.messages if each["role"] == "tool")
            return "Sent."

        names = ("report.txt", "large.bin", "../secret.txt", "missing.txt")
        calls = [Call("send_file", {"path": name, "caption": f"here is {name}"}) for name in names]
        return ScriptedModel([calls, end])

    async def scenario() -> None:
        platform = MemoryPlatform(traits(max_upload=1000))
        let_in(db, "ada")
        place = await platform.direct("ada")
        async with a_gateway(db, platform, script, tools=[ChatFiles(db, kept).tool()]) as (_, host):
            await platform.say(place, "ada", "send me everything")
            await until_status(host, lambda now: now.posts == {"sent": 3, "failed": 1})
        seen = [each for each in platform.seen(place) if each.by_bot]
        assert [(each.text, each.file) for each in seen if each.file] == [
            ("here is report.txt", b"all is well")
        ]
        assert any("could not be sent here" in each.text for each in seen)
        assert "Sent." in [each.text for each in seen]

    run(scenario())
    assert "on its way" in results[0]
    assert "outside the workspace" in results[2]
    assert "missing.txt" in results[3]
    assert [each.name for each in (kept / OUTGOING).rglob("*") if each.is_file()] == ["large.bin"]
