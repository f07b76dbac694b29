"""`holdfast config`: shows and changes the settings."""

import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from cyclopts import App

from holdfast.cli.output import show
from holdfast.core.errors import InvalidInput
from holdfast.core.secret import MASK, Secret, without_password
from holdfast.core.settings_file import parse_settings
from holdfast.core.whole_files import replace_files
from holdfast.process import with_original_limit
from holdfast.wiring import editor, load_settings, settings_path
from holdfast.wiring.settings_writer import EMPTY, change_settings, to_toml

config = App(name="config", help="Show and change the settings.")


@config.default
def show_settings() -> None:
    """Print every setting in effect, secrets masked."""
    for section, part in load_settings():
        for key, value in part:
            hidden = not type(part).model_fields[key].repr and not isinstance(value, str)
            shown = f"({len(value)}, not shown)" if hidden and value else _shown(value)
            show(f"{section}.{key} = {shown}")


config.command(show_settings, name="show")


def _shown(value: object) -> str:
    if isinstance(value, Secret):
        return MASK if value else '""'
    if isinstance(value, str):
        return to_toml(without_password(value))
    return "(none)" if value is None else to_toml(value)


@config.command
def path() -> None:
    """Print where the settings file is, or would be."""
    show(str(settings_path()))


@config.command(name="set")
def set_setting(key: str, value: str, /) -> None:
    """Change one setting in the file. Comments and the other settings stay.

    Parameters
    ----------
    key
        SECTION.KEY, such as model.name.
    value
        The new value; a list as JSON, such as '["command:ls *"]', or with commas. '[]' empties it.

    """
    change_settings({key: value})
    show(f"{key} is set in {settings_path()}")


@config.command
def edit() -> None:
    """Open the settings file in the editor that VISUAL or EDITOR names; it is checked before it counts."""
    command = editor()
    file = settings_path()
    if not command:
        raise InvalidInput(f"no editor is named; set EDITOR, or change {file} with `holdfast config set`")
    text = file.read_text(encoding="utf-8") if file.exists() else EMPTY
    with tempfile.TemporaryDirectory() as folder:
        draft = Path(folder) / "settings.toml"
        draft.write_text(text, encoding="utf-8")
        words = with_original_limit([*shlex.split(command), str(draft)])
        done = subprocess.run(words, stdin=sys.stdin, check=False)  # noqa: S603 - the person's own editor
        changed = draft.read_bytes()
    if done.returncode:
        raise InvalidInput(f"the editor ended with {done.returncode}; nothing was changed")
    parse_settings(f"{file} (as it would be; nothing was changed)", changed)
    replace_files({file: changed.decode("utf-8-sig")})
    show(f"{file} is written")
