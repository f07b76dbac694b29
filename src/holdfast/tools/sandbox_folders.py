"""The folders that a sandbox shows, hides, or owns.

The system and the toolchains in PATH are visible and read-only; the rest of the home folder is hidden. Each
conversation has its own `/tmp` and home folder until it is deleted or the program ends.
"""

import fcntl
import hashlib
import logging
import os
import stat
import subprocess
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

logger = logging.getLogger(__name__)

SYSTEM = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt"),
    *("/nix/store", "/nix/var/nix/profiles", "/gnu/store", "/snap", "/run/current-system"),
)
# Folders in a home folder where version managers keep the programs in PATH.
TOOLCHAINS = (
    *(".pyenv", ".rbenv", ".nodenv", ".nvm", ".volta", ".asdf", ".sdkman", ".ghcup", ".juliaup", ".dotnet"),
    *(".rustup", ".cargo/bin", ".cargo/env", "go/bin", ".deno/bin", ".bun/bin", ".local/bin", ".local/lib"),
    *(".local/share/mise", ".local/share/uv", ".local/share/pipx", ".local/share/pnpm", ".local/share/fnm"),
    # A name and an address for commits.
    *(".gitconfig", ".config/git/config", ".config/git/ignore"),
)
# Hidden when the workspace contains a home folder.
SECRETS = (
    *(".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".netrc", ".git-credentials", ".pgpass"),
    *(".pypirc", ".npmrc", ".cargo/credentials.toml", ".password-store", ".mozilla", ".thunderbird"),
    *(".config/gcloud", ".config/gh", ".config/git/credentials", ".config/google-chrome", ".config/chromium"),
    *(".local/share/keyrings", ".bash_history", ".zsh_history", ".python_history"),
)
STARTUP_FILES = (
    *(".bashrc", ".bash_profile", ".bash_login", ".profile", ".zshrc", ".zshenv", ".zprofile", ".zlogin"),
    *(".gitconfig", ".config/autostart", ".config/systemd", ".config/git", ".local/bin", ".inputrc"),
)
"""Files of a home folder that run without being asked: read-only when the workspace contains them."""
OWNER_ONLY = 0o700
PREFIX = "holdfast-locked-sandbox-"
"""Not that of earlier releases, whose folders have no lock: they may belong to a program that still runs."""
MAX_SCANNED = 20_000
REMOVE_SECONDS = 20.0


class PrivateFolders:
    """A `/tmp` and a home for each conversation, in one folder of this process. Thread-safe.

    The process holds a lock on the folder. One that nobody holds belongs to a process that was killed, and
    the next process that makes a folder removes it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards `_base` and `_held`
        self._base: Path | None = None
        self._held = -1

    @property
    def base(self) -> Path:
        with self._lock:
            if self._base is None:
                self._base, self._held = _locked_folder()
                threading.Thread(target=_remove_left_behind, name="sandbox-clean-up", daemon=True).start()
            return self._base

    def of(self, conversation: str) -> tuple[Path, Path]:
        """The folders for `/tmp` and for the home of a conversation."""
        own = _own_folder(self.base, conversation)
        pair = own / "tmp", own / "home"
        for each in pair:
            each.mkdir(mode=OWNER_ONLY, parents=True, exist_ok=True)
        return pair

    def forget(self, conversation: str) -> None:
        """Remove the folders of a deleted conversation and everything in them."""
        with self._lock:
            base = self._base
        if base is None:
            return
        own = _own_folder(base, conversation)
        held = _lock(own)
        if held is not None:
            # Under another name: a conversation of the same name may begin meanwhile.
            with suppress(OSError):
                own = own.rename(own.with_name(f"{own.name}.{os.fstat(held).st_ino}"))
            _remove(own, held)
            os.close(held)

    def close(self) -> None:
        """Remove the folders and everything in them."""
        with self._lock:
            base, self._base = self._base, None
            held, self._held = self._held, -1
        if base is not None:
            _remove(base, held)
            os.close(held)


def _own_folder(base: Path, conversation: str) -> Path:
    return base / hashlib.sha256(conversation.encode("utf-8", "replace")).hexdigest()[:24]


def _locked_folder() -> tuple[Path, int]:
    """A new folder, and the open file that holds its lock."""
    while True:
        made = Path(os.path.realpath(tempfile.mkdtemp(prefix=PREFIX)))
        held = _lock(made)
        if held is not None:
            return made, held
        # Another process took it for one that was left behind, in the moment before it was locked.


def _lock(folder: Path) -> int | None:
    """Lock a folder of this user for as long as the returned file is open.

    None when another process has it, when it is gone, or when it is somebody else's.
    """
    try:
        held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        there, here = folder.lstat(), os.fstat(held)
        if there.st_ino == here.st_ino and here.st_uid == os.geteuid():
            return held
    except OSError:
        pass
    os.close(held)
    return None


def _remove_left_behind() -> None:
    """Remove the folders of processes that were killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        held = _lock(folder)
        if held is not None:
            _remove(folder, held)
            os.close(held)
            logger.info("sandbox.left_behind_removed", extra={"folder": str(folder)})


def _remove(folder: Path, held: int) -> None:
    """Remove a folder that is locked. It may be replaced by a link meanwhile, which must not be followed."""
    # shutil.rmtree fails on trees that are very deep or unreadable.
    opened = (("/bin/chmod", "-R", "u+rwX", "."), f"/dev/fd/{held}")
    named = (("/bin/rm", "-rf", "--one-file-system", "--", os.fspath(folder)), "/")
    for words, place in (opened, named):
        try:
            subprocess.run(  # noqa: S603 - whole paths, no shell
                words,
                cwd=place,
                check=False,
                timeout=REMOVE_SECONDS,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        except (OSError, subprocess.TimeoutExpired):
            logger.warning("sandbox.folder_left_behind", extra={"folder": str(folder)}, exc_info=True)


def system_folders() -> Iterator[tuple[str, str]]:
    """The folders of the system, each with the target of its link, or with an empty text."""
    for each in SYSTEM:
        path = Path(each)
        if path.is_symlink():
            yield each, os.fspath(path.readlink())
        elif path.is_dir():
            yield each, ""


def private_in_etc(root: Path = Path("/etc")) -> list[Path]:
    """Files in /etc that this process can read and other users can't, such as keys when it runs as root."""
    found: list[Path] = []
    waiting, seen = [root], 0
    while waiting and seen < MAX_SCANNED:
        try:
            entries = list(os.scandir(waiting.pop()))
        except OSError:
            continue
        for entry in entries:
            seen += 1
            try:
                mode = entry.stat(follow_symlinks=False).st_mode
            except OSError:
                continue
            folder = stat.S_ISDIR(mode)
            if stat.S_ISLNK(mode):
                continue
            if not mode & stat.S_IROTH and os.access(entry.path, os.R_OK):
                found.append(Path(entry.path))
            elif folder:
                waiting.append(Path(entry.path))
    return found


def toolchains(environment: Mapping[str, str], home: Path | None) -> list[Path]:
    """The folders that commands need in addition to the system: from PATH and from the home folder."""
    found: list[Path] = []
    for each in environment.get("PATH", "").split(os.pathsep):
        folder = Path(os.path.realpath(each))
        # PATH may name folders of another user, about which `Path.is_dir` raises.
        if not folder.is_absolute() or not os.access(folder, os.X_OK) or not folder.is_dir():
            continue
        if inside(folder, map(Path, SYSTEM)):
            continue
        above = folder.parent
        # In a prefix such as a virtual environment, programs need the libraries next to them.
        prefix = folder.name == "bin" and (above / "lib").is_dir() and above.name != ".local"
        whole = prefix or folder.name == "shims" or above.name in TOOLCHAINS
        found.append(above if whole and above not in (home, Path("/")) else folder)
    if home is not None:
        found += [home / each for each in TOOLCHAINS if (home / each).exists()]
    wanted = {each for each in found if each not in (home, Path("/"))}
    return sorted(each for each in wanted if not inside(each, wanted - {each}))


def inside(path: Path, folders: Iterable[Path]) -> bool:
    """Whether the path is one of the folders, or in one."""
    return any(path.is_relative_to(each) for each in folders)


def home_of(environment: Mapping[str, str]) -> Path | None:
    """The home folder for commands; None when HOME is not set to a real folder."""
    home = Path(environment.get("HOME", ""))
    return Path(os.path.realpath(home)) if home.is_absolute() and home != Path("/") else None
