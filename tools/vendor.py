"""Fetch the libraries of the web page: `python -m tools.vendor`, which needs npm and its registry.

Each package is pinned by version and by the hash of its archive. What the page uses of it is written below
`src/holdfast/web/page/vendor` with its licence and a manifest of hashes, and is kept in the repository, so
that neither an installation nor the page ever needs the network. Nothing of the libraries' code is changed;
the ones that every view needs are put into one file, each inside a function of its own.
"""

import base64
import hashlib
import json
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

VENDOR = Path(__file__).resolve().parent.parent / "src/holdfast/web/page/vendor"
MANIFEST = "manifest.json"
JOINED = "base.js"
LANGUAGES = """
bash c cpp csharp css diff dockerfile go ini java javascript json kotlin lua makefile markdown php powershell
python ruby rust shell sql swift typescript xml yaml
"""


@dataclass(frozen=True, slots=True)
class Package:
    """One npm package: what is taken from it, and the archive it must come from."""

    name: str
    version: str
    integrity: str
    licence: str
    files: Mapping[str, str]
    """Path in the package to path below the vendor folder; one in `JOIN` is put into `JOINED` instead."""


# The order in which they are put into one file: each may require those before it.
JOIN = ("preact", "preact/hooks", "htm", "dompurify", "marked")

PACKAGES = (
    Package(
        "preact",
        "10.29.8",
        "sha512-ej2aVZ+vZ8WO7tvlQWRM9N63A0KzF9q4mWJfDUHgYaIofWY9hu74QdnQrjoPMmZi2/nZ5gN0bJCQF49xQqx09Q==",
        "MIT",
        {"dist/preact.js": "preact", "hooks/dist/hooks.js": "preact/hooks"},
    ),
    Package(
        "htm",
        "3.1.1",
        "sha512-983Vyg8NwUE7JkZ6NmOqpCZ+sh1bKv2iYTlUkzlWmA5JD2acKoxd4KVxbMmxX/85mtfdnDmTFoNKcg5DGAvxNQ==",
        "Apache-2.0",
        {"dist/htm.js": "htm"},
    ),
    Package(
        "dompurify",
        "3.4.17",
        "sha512-B/pSlYVHQ58kqISD/yDjuJ1yfzI34m1gF4lAod2bwSRhiN4K5Cl3H8Af7hqB2PmTL911tdEudnnXn5FnhRoz0w==",
        "MPL-2.0 OR Apache-2.0",
        {"dist/purify.min.js": "dompurify"},
    ),
    Package(
        "marked",
        "18.2.0",
        "sha512-KaeL+tAbtvI930q7HE2PN5lYXYdT8EiSmxHlN6F3rsfb57wd5mp5W5TLazpdj4inTQBJdgjYwbs40W/0VUGU+Q==",
        "MIT",
        {"lib/marked.umd.js": "marked"},
    ),
    Package(
        "@highlightjs/cdn-assets",
        "11.12.0",
        "sha512-KvOKXODaiFmId9xaq3xc5xCL66wVLUuOngDbO9B/kewbFTqdGbn2nJxNhN3H5R1cgDTVj6R8vH0zgiNDEGjpDw==",
        "BSD-3-Clause",
        {
            "es/core.min.js": "highlight/core.js",
            **{f"es/languages/{each}.min.js": f"highlight/{each}.js" for each in LANGUAGES.split()},
        },
    ),
    Package(
        "temml",
        "0.13.5",
        "sha512-aPkDDgunanpLNL0ql32HbolqLep+w8DRcVXRql7rWrMt/PhczdLgL4UBYYVU3BYjCNjkGq4EqwIicu/zWr1iOg==",
        "MIT",
        {"dist/temml.min.js": "temml.js"},
    ),
)

HEAD = """\
// The libraries that every view needs, as they were published, each inside a function of its own.
// Written by tools/vendor.py; versions, hashes and licences are in manifest.json and LICENSES.txt.
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
OWN_LAST_LINE = {"temml.js": "export default temml;\n"}
"""A library made for a script tag, with the line that makes it a module."""


class NotAsPinned(Exception):
    """What was fetched is not what this file names; nothing was written."""


def fetch(package: Package, folder: Path) -> Path:
    """Fetch the package's archive, refuse it unless it is the pinned one, and unpack it."""
    wanted = f"{package.name}@{package.version}"
    ran = subprocess.run(
        ["npm", "pack", wanted, "--json", "--pack-destination", str(folder)],  # noqa: S607
        capture_output=True,
        text=True,
        check=False,
    )
    if ran.returncode:
        raise NotAsPinned(f"npm could not fetch {wanted}: {ran.stderr.strip()}")
    archive = next(folder.glob("*.tgz"))
    digest = hashlib.sha512(archive.read_bytes()).digest()
    found = f"sha512-{base64.b64encode(digest).decode()}"
    if found != package.integrity:
        raise NotAsPinned(f"{wanted} is {found}, but {package.integrity} is pinned")
    with tarfile.open(archive) as opened:
        opened.extractall(folder, filter="data")
    archive.unlink()
    return folder / "package"


def contents(packages: tuple[Package, ...]) -> dict[str, str]:
    """Every file of the vendor folder but the manifest, by its path."""
    files: dict[str, str] = {}
    parts: dict[str, str] = {}
    licences: list[str] = []
    for package in packages:
        with tempfile.TemporaryDirectory() as folder:
            unpacked = fetch(package, Path(folder))
            for source, target in package.files.items():
                text = without_map((unpacked / source).read_text(encoding="utf-8"))
                if target in JOIN:
                    parts[target] = text
                else:
                    files[target] = text + OWN_LAST_LINE.get(target, "")
            licence = (unpacked / "LICENSE").read_text(encoding="utf-8").strip()
        licences.append(f"{package.name} {package.version} ({package.licence})\n\n{licence}\n")
    joined = "".join(
        f'define("{name}", function (module, exports, require) {{\n{parts[name]}\n}});\n' for name in JOIN
    )
    rule = f"\n{'-' * 80}\n\n"
    return {JOINED: HEAD + joined + TAIL, **files, "LICENSES.txt": rule.join(licences)}


def without_map(text: str) -> str:
    """A library without the pointer to a source map, which a browser would look for in vain."""
    lines = [line for line in text.splitlines() if not line.startswith("//# sourceMappingURL=")]
    return "\n".join(lines).rstrip() + "\n"


def manifest(packages: tuple[Package, ...], files: Mapping[str, str]) -> dict[str, Any]:
    """What the folder holds: each package as it was pinned, each file with its hash."""
    return {
        "packages": [
            {
                "name": package.name,
                "version": package.version,
                "integrity": package.integrity,
                "licence": package.licence,
            }
            for package in packages
        ],
        "files": {name: hashlib.sha256(text.encode()).hexdigest() for name, text in sorted(files.items())},
    }


def altered(folder: Path = VENDOR) -> list[str]:
    """The files of the folder that are not as the manifest says, the missing and the extra ones too."""
    listed: dict[str, str] = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["files"]
    found = {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file() and path.name != MANIFEST
    }
    return sorted(name for name in listed.keys() | found.keys() if listed.get(name) != found.get(name))


def main() -> int:
    try:
        files = contents(PACKAGES)
    except NotAsPinned as refused:
        print(f"Nothing was changed: {refused}", file=sys.stderr)
        return 1
    for old in sorted(VENDOR.rglob("*"), reverse=True):
        if old.is_file():
            old.unlink()
    for name, text in files.items():
        path = VENDOR / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    written = json.dumps(manifest(PACKAGES, files), indent=2)
    (VENDOR / MANIFEST).write_text(f"{written}\n", encoding="utf-8")
    print(f"{len(files)} files of {len(PACKAGES)} packages are in {VENDOR}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
