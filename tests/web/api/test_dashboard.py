"""The Grafana dashboard in deploy/ asks for the metrics that a server really tells, and for all of them."""

import json
import re
from pathlib import Path
from typing import Any

from holdfast.sessions import SessionDB
from holdfast.testing.scripted_model import Tokens
from tests.web.api.api_server import served
from tests.web.api.test_sessions import Wait, talked

METRIC = re.compile(r"\bholdfast_\w+")


def dashboard(checkout: Path) -> dict[str, Any]:
    text = (checkout / "deploy" / "grafana-dashboard.json").read_text(encoding="utf-8")
    return dict(json.loads(text))


def expressions(panels: list[dict[str, Any]]) -> list[str]:
    return [target["expr"] for panel in panels for target in panel["targets"]]


def test_the_dashboard_shows_every_metric_and_no_other(db: SessionDB, wait: Wait, checkout: Path) -> None:
    async def told() -> str:
        async with served(db, [["hello", Tokens(7, 2)]]) as server:
            await talked(server, "hi")
            return (await server.http.get("/metrics")).text

    board = dashboard(checkout)
    asked = expressions(board["panels"])
    assert asked
    text = wait(told())
    kinds = dict(re.findall(r"^# TYPE (holdfast_\w+) (\w+)$", text, flags=re.MULTILINE))
    told_names = {
        f"{name}_bucket" if kind == "histogram" else name
        for name, kind in kinds.items()
        if not name.endswith("_created")
    }
    assert {name for each in asked for name in METRIC.findall(each)} == told_names


def test_every_panel_has_its_own_place_and_number(checkout: Path) -> None:
    panels = dashboard(checkout)["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels]
    assert len(set(places)) == len(panels)
    variables = {each["name"] for each in dashboard(checkout)["templating"]["list"]}
    assert {"source", "node"} == variables
    for each in expressions(panels):
        assert '{instance=~"$node"' in each
