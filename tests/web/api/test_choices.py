"""Choices over HTTP: folders, prompts, what a host of one model refuses; settings and signing in."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.sessions import SessionDB
from holdfast.web.sign_in.session_cookie import COOKIE
from tests.web.api.api_server import TOKEN, served

Wait = Callable[[Awaitable[Any]], Any]


def test_folders_and_prompts_are_kept_and_bad_ones_refused(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        async with served(db) as server:
            http = server.http
            begun = await server.begin(folder="Garten & Haus")
            assert (await http.get("/api/sessions", params={"folder": "Garten & Haus"})).json()["items"][0][
                "id"
            ] == begun
            assert (await http.get("/api/sessions", params={"folder": "another"})).json()["items"] == []
            assert [each["name"] for each in (await http.get("/api/folders")).json()["items"]] == [
                "Garten & Haus"
            ]
            path = "/api/folders/Garten%20%26%20Haus"
            assert (await http.patch(path, json={"name": "a/b"})).status_code == 204
            assert (await http.get(f"/api/sessions/{begun}")).json()["folder"] == "a/b"
            assert (await http.patch(path, json={"name": "c"})).status_code == 404
            assert (await http.patch("/api/folders/a%2Fb", json={"name": " "})).status_code == 422
            assert (await http.patch("/api/folders/a%2Fb", json={"name": "Garten & Haus"})).status_code == 204
            assert (await http.patch(f"/api/sessions/{begun}", json={"folder": ""})).json()["folder"] == ""
            assert (await http.delete("/api/folders/Garten%20%26%20Haus")).status_code == 204
            assert (await http.delete("/api/folders/nothing")).status_code == 404
            assert (await http.put("/api/prompts/a%2Fb", json={"text": "one"})).status_code == 204
            assert (await http.get("/api/prompts")).json()["items"][0]["name"] == "a/b"
            assert (await http.put("/api/prompts/x", json={"text": " "})).status_code == 422
            assert (await http.delete("/api/prompts/a%2Fb")).status_code == 204
            refused = await http.patch(f"/api/sessions/{begun}", json={"model": "large", "title": "new"})
            assert refused.status_code == 422
            assert "one model" in refused.json()["detail"]
            refused = await http.post("/api/sessions", json={"workspace": "/", "message": {"text": "hi"}})
            assert refused.status_code == 422
            assert (await http.get(f"/api/sessions/{begun}")).json()["title"] is None

    wait(scenario())


def test_settings_say_where_they_come_from_and_a_key_is_never_shown(
    db: SessionDB, wait: Wait, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "own.toml"
    file.write_text('[model]\napi_key = "sk-old"\nname = "small"\n')
    file.chmod(0o600)
    monkeypatch.setenv("HOLDFAST_SETTINGS", str(file))
    monkeypatch.setenv("HOLDFAST_LIMITS_MAX_STEPS", "7")

    async def scenario() -> None:
        async with served(db) as server:
            http = server.http
            found = await http.get("/api/settings")
            items = {each["key"]: each for each in found.json()["items"]}
            assert items["limits.max_steps"]["source"] == "environment"
            assert not items["limits.max_steps"]["changeable"]
            assert not items["store.url"]["changeable"]
            assert items["model.name"]["source"] == "file"
            assert items["model.api_key"]["is_set"]
            assert "sk-old" not in found.text
            fixed = await http.patch("/api/settings", json={"changes": {"limits.max_steps": "9"}})
            assert fixed.status_code == 422
            assert "HOLDFAST_LIMITS_MAX_STEPS" in fixed.json()["detail"]
            for bad in (
                {"no.such": "x"},
                {"memory.recall_s": "soon"},
                {"store.url": "sqlite:///x"},
                {"tools.workspace": str(tmp_path / "no folder")},
                {"tools.workspace": str(file)},
            ):
                before = file.read_text()
                assert (await http.patch("/api/settings", json={"changes": bad})).status_code == 422
                assert file.read_text() == before
            changes = {"model.api_key": "sk-new", "memory.recall_s": "3", "tools.allow": '["command:ls *"]'}
            changed = await http.patch("/api/settings", json={"changes": changes})
            assert changed.status_code == 200
            assert changed.json()["restart"] == ["memory.recall_s", "tools.allow"]
            assert "one model" in changed.json()["model_problem"]
            assert "sk-new" not in changed.text
            assert "sk-" not in file.read_text()
            keys = tmp_path / "own.keys.toml"
            assert "sk-new" in keys.read_text()
            assert keys.stat().st_mode & 0o077 == 0
            again = {each["key"]: each for each in (await http.get("/api/settings")).json()["items"]}
            assert again["tools.allow"]["value"] == "command:ls *"
            assert again["model.api_key"]["is_set"]

    wait(scenario())


def test_the_token_signs_a_browser_in_and_a_link_that_fails_leads_to_the_page(
    db: SessionDB, wait: Wait
) -> None:
    async def scenario() -> None:
        async with served(db) as server, server.stranger() as browser:
            html = {"Accept": "text/html,*/*"}
            lost = await browser.get("/?token=wrong", headers=html)
            assert lost.status_code == 303
            assert lost.headers["location"] == "/#/sign-in/link"
            assert (await browser.get("/?token=wrong")).status_code == 401
            for shown in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic eA=="}):
                assert (await browser.post("/api/sign-in", headers=shown)).status_code == 401
            signed = await browser.post("/api/sign-in", headers={"Authorization": f"Bearer {TOKEN}"})
            assert signed.status_code == 204
            cookie = signed.headers["set-cookie"]
            assert cookie.startswith(f"{COOKIE}={TOKEN};")
            assert "HttpOnly" in cookie
            assert "SameSite=strict" in cookie
            assert (await browser.get("/api/status")).status_code == 200

    wait(scenario())
