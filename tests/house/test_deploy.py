"""The files in deploy/ name commands, settings and paths that exist."""

import configparser
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from holdfast.cli.commands import app
from holdfast.core.settings import Settings
from holdfast.models.choice import ADDRESS_NAMES, KEY_NAMES

SETTINGS = {f"HOLDFAST_{section.upper()}_{key.upper()}" for section, part in Settings() for key, _ in part}
UNITS = {"holdfast.service": "web", "holdfast-worker@.service": "worker"}
FILES = ("Dockerfile", "compose.yaml", *UNITS)


@pytest.fixture
def deploy(checkout: Path) -> Path:
    return checkout / "deploy"


def instructions(dockerfile: str) -> list[tuple[str, str]]:
    """The instructions with their arguments, continued lines joined, comments left out."""
    text = re.sub(r"^#.*\n", "", dockerfile, flags=re.MULTILINE).replace("\\\n", " ")
    found = (line.partition(" ") for line in text.splitlines() if line.strip())
    return [(name, arguments.strip()) for name, _, arguments in found]


def unit(deploy: Path, name: str) -> dict[str, dict[str, str]]:
    parser = configparser.RawConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(deploy / name, encoding="utf-8")
    return {name: dict(parser[name]) for name in parser.sections()}


def compose(deploy: Path) -> Any:  # noqa: ANN401 - YAML
    return yaml.safe_load((deploy / "compose.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", FILES)
def test_every_setting_in_them_exists(name: str, deploy: Path) -> None:
    named = set(re.findall(r"HOLDFAST_[A-Z_]+", (deploy / name).read_text(encoding="utf-8")))
    assert named
    assert named <= SETTINGS


def test_the_image_copies_what_is_there_and_runs_a_command_as_an_ordinary_user(deploy: Path) -> None:
    steps = instructions((deploy / "Dockerfile").read_text(encoding="utf-8"))
    copied = [shlex.split(given)[:-1] for name, given in steps if name == "COPY" and "--from" not in given]
    missing = [each for sources in copied for each in sources if not (deploy.parent / each).exists()]
    assert missing == []
    last_stage = steps[max(place for place, (name, _) in enumerate(steps) if name == "FROM") :]
    given = dict(last_stage)
    assert given["ENTRYPOINT"] == '["holdfast"]'
    assert given["CMD"] == '["web"]'
    assert "web" in app
    assert int(given["USER"]) > 0
    assert "/healthz" in given["HEALTHCHECK"]
    assert given["EXPOSE"] == str(Settings().web.port)


@pytest.mark.parametrize("name", UNITS)
def test_a_unit_runs_a_command_that_says_when_it_is_ready_and_writes_nothing_but_its_own_folder(
    name: str, deploy: Path
) -> None:
    service = unit(deploy, name)["Service"]
    program, command = service["ExecStart"].split()
    assert (Path(program).name, command) == ("holdfast", UNITS[name])
    assert service["Type"] == "notify"
    assert command in app
    strict = {"ProtectSystem": "strict", "ProtectHome": "yes", "DynamicUser": "yes", "NoNewPrivileges": "yes"}
    assert {name: service[name] for name in strict} == strict
    assert service["StateDirectory"] == "holdfast holdfast-scopes"


def test_who_stops_it_waits_longer_than_the_exit_watchdog(deploy: Path) -> None:
    grace = compose(deploy)["services"]["holdfast"]["stop_grace_period"]
    stops = [unit(deploy, name)["Service"]["TimeoutStopSec"] for name in UNITS]
    for waited in map(float, (grace.removesuffix("s"), *stops)):
        assert waited > Settings().exit.watchdog_s


def test_the_compose_file_builds_this_image_and_gives_it_a_store_and_keys(deploy: Path) -> None:
    services = compose(deploy)["services"]
    own = services["holdfast"]
    context = (deploy / own["build"]["context"]).resolve()
    assert (context / own["build"]["dockerfile"]).is_file()
    assert own["environment"]["HOLDFAST_STORE_URL"].startswith("postgresql://")
    others = {name for name in own["environment"] if not name.startswith("HOLDFAST_")}
    assert others <= {*KEY_NAMES.values(), *ADDRESS_NAMES.values()}
    assert all(port.startswith("127.0.0.1:") for port in own["ports"])
    assert own["depends_on"]["postgres"]["condition"] == "service_healthy"
    assert "healthcheck" in services["postgres"]
    named = {volume.partition(":")[0] for each in services.values() for volume in each["volumes"]}
    assert named == set(compose(deploy)["volumes"])


def test_the_service_that_may_be_scaled_is_a_worker_without_a_port(deploy: Path) -> None:
    services = compose(deploy)["services"]
    own, worker = services["holdfast"], services["worker"]
    assert worker["command"][0] in app
    assert "ports" not in worker
    assert worker["healthcheck"] == {"disable": True}
    assert worker["deploy"]["replicas"] == 0
    shared = ("build", "environment", "volumes", "depends_on", "stop_grace_period", "read_only", "cap_drop")
    assert [worker[each] for each in shared] == [own[each] for each in shared]
