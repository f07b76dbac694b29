"""Put uv, the project's environment and the web page's libraries into the checkout; `make` runs this first.

Needs nothing but a Python 3 with its standard library, and runs on old ones too, so that it can say which
Python is missing. What it makes: `.tools/` (uv, and node where the machine has no npm), `.cache/`, `.venv/`
and the page's `lib/`, see page_libraries.py.
"""

import hashlib
import json
import os
import shutil
import ssl
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Dict, List, Optional, Tuple

UV_VERSION = "0.13.7"
SUPPORTED = ((3, 11), (3, 12), (3, 13))

ROOT = Path(__file__).resolve().parent.parent
TOOLS = ROOT / ".tools"
VENV = ROOT / ".venv"
STAMP = "holdfast-synced"
PAGE_LIBRARIES = ROOT / "src" / "holdfast" / "web" / "page" / "lib"


class CannotBootstrap(Exception):
    """The machine lacks something; the message says what to do."""


def probe(python: str) -> Optional[Tuple[Tuple[int, int], str]]:
    """Return the interpreter's version and real path, or None when it doesn't run."""
    script = "import sys; print(*sys.version_info[:2]); print(sys.executable)"
    try:
        answer = subprocess.run(
            [python, "-c", script],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    version, path = answer.stdout.decode().splitlines()[:2]
    major, minor = version.split()
    return (int(major), int(minor)), path


def usable(python: str) -> Optional[str]:
    """Return the interpreter's real path when it runs and is of a supported version."""
    found = probe(python)
    return found[1] if found and found[0] in SUPPORTED else None


def find_python(current: str, search: Optional[str] = None) -> str:
    """Return `current` if it will do, or else the newest on the search path (PATH by default)."""
    found = usable(current)
    if found:
        return found
    for major, minor in reversed(SUPPORTED):
        command = shutil.which(f"python{major}.{minor}", path=search)
        found = usable(command) if command else None
        if found:
            return found
    raise CannotBootstrap(
        f"Holdfast needs Python 3.11, 3.12 or 3.13; {current} is another version,\n"
        "and PATH has none of them. Install one (for example `apt install python3.11\n"
        "python3.11-venv`) and run make again, or name it: `make test PYTHON=/path/to/python3.12`."
    )


def pip_command(python: str, scratch: Path) -> List[str]:
    """Return a working pip: the interpreter's own, or one in a throw-away virtual environment."""
    own = [python, "-m", "pip"]
    quiet = subprocess.DEVNULL
    if subprocess.call([*own, "--version"], stdout=quiet, stderr=quiet) == 0:
        return own
    if subprocess.call([python, "-m", "venv", str(scratch)], stdout=quiet, stderr=quiet) == 0:
        return [str(scratch / "bin" / "python"), "-m", "pip"]
    raise CannotBootstrap(
        f"{python} has neither pip nor ensurepip, so uv cannot be installed.\n"
        "Install one of them (for example `apt install python3-venv`) and run make again."
    )


def ensure_uv(python: str) -> Path:
    return install_tool(python, "uv", UV_VERSION) / "bin" / "uv"


def install_tool(python: str, package: str, version: str) -> Path:
    """Return the folder in `.tools` of a program that PyPI has as a package; install it if it is missing."""
    home = TOOLS / f"{package}-{version}"
    if home.exists():
        return home
    TOOLS.mkdir(exist_ok=True)
    print(f"installing {package} {version} into {home.relative_to(ROOT)}", file=sys.stderr)
    # Installed beside its place and moved there whole: two makes at once never see half of it.
    with tempfile.TemporaryDirectory(dir=str(TOOLS), prefix="new-") as scratch:
        target = Path(scratch) / "tool"
        command = [
            *pip_command(python, Path(scratch) / "venv"),
            *("install", "--quiet", "--disable-pip-version-check", "--no-input", "--no-cache-dir"),
            *("--no-deps", "--only-binary", ":all:", "--target", str(target), f"{package}=={version}"),
        ]
        environment = {**os.environ, "PIP_USER": "0", "PIP_ROOT_USER_ACTION": "ignore"}
        if subprocess.call(command, env=environment) != 0:
            raise CannotBootstrap(
                f"pip could not install {package} {version}; its message is above.\n"
                "The first run needs a package registry within reach."
            )
        try:
            target.rename(home)
        except OSError:
            if not home.exists():
                raise
    return home


def machine_has_certificates() -> bool:
    paths = ssl.get_default_verify_paths()
    return bool(paths.cafile) or bool(paths.capath and any(Path(paths.capath).iterdir()))


def uv_environment(python: str, venv: Path = VENV) -> Dict[str, str]:
    environment = dict(os.environ)
    environment.setdefault("UV_CACHE_DIR", str(ROOT / ".cache" / "uv"))
    # uv trusts whom this machine trusts, as pip does; its own list is for machines that have none.
    if machine_has_certificates():
        environment.setdefault("UV_SYSTEM_CERTS", "true")
    environment.update(
        UV_PYTHON=python,
        UV_PYTHON_DOWNLOADS="never",
        UV_PROJECT_ENVIRONMENT=str(venv),
    )
    # Another active environment is none of uv's business here.
    environment.pop("VIRTUAL_ENV", None)
    return environment


def fingerprint(python: str) -> str:
    """Change when the environment must be synced anew."""
    digest = hashlib.sha256(repr((UV_VERSION, python)).encode())
    for name in ("pyproject.toml", "uv.lock"):
        digest.update((ROOT / name).read_bytes())
    return digest.hexdigest()


def sync(python: str, venv: Path = VENV) -> None:
    """Install the locked dependencies into `venv`, unless they are there."""
    wanted = [str(ROOT), fingerprint(python)]
    stamp = venv / STAMP
    stamped = stamp.read_text().splitlines() if stamp.exists() else []
    if stamped == wanted and usable(str(venv / "bin" / "python")):
        return
    if stamped and stamped[0] != wanted[0]:
        # The scripts of an environment name its path, so a moved checkout gets a new one.
        shutil.rmtree(str(venv))
    command = [str(ensure_uv(python)), "sync", "--frozen", "--all-extras", "--quiet"]
    print(f"installing the locked dependencies into {venv.relative_to(ROOT)}", file=sys.stderr)
    if subprocess.call(command, cwd=str(ROOT), env=uv_environment(python, venv)) != 0:
        raise CannotBootstrap("uv could not install the locked dependencies; its message is above.")
    stamp.write_text("\n".join(wanted))


def page_fingerprint() -> str:
    """Change when the web page's libraries must be installed anew."""
    digest = hashlib.sha256()
    for name in ("package-lock.json", "tools/page_libraries.py"):
        digest.update((ROOT / name).read_bytes())
    return digest.hexdigest()


def page_is_current() -> bool:
    """Say whether the web page's libraries are those of the lock file."""
    manifest = PAGE_LIBRARIES / "manifest.json"
    return manifest.exists() and json.loads(manifest.read_text())["made_from"] == page_fingerprint()


def sync_page(venv: Path = VENV) -> None:
    """Install the web page's libraries, unless they are there."""
    if page_is_current():
        return
    print(f"installing the web page's libraries into {PAGE_LIBRARIES.relative_to(ROOT)}", file=sys.stderr)
    command = [str(venv / "bin" / "python"), "-m", "tools.page_libraries"]
    if subprocess.call(command, cwd=str(ROOT)) != 0:
        raise CannotBootstrap("The web page's libraries are not installed; the reason is above.")


def main(arguments: List[str]) -> int:
    """With no argument sync `.venv`; with arguments run uv with them, e.g. `lock`."""
    try:
        python = find_python(sys.executable)
        if arguments:
            command = [str(ensure_uv(python)), *arguments]
            return subprocess.call(command, cwd=str(ROOT), env=uv_environment(python))
        sync(python)
        sync_page()
    except CannotBootstrap as cause:
        print(cause, file=sys.stderr)
        return 1
    except PermissionError as cause:
        print(f"The checkout must be writable by the user who runs make: {cause}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
