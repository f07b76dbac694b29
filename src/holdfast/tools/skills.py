"""Skills: folders with a SKILL.md that explains how to do something. The prompt lists them for the model.

A SKILL.md begins with YAML between two lines of `---`, with `name` and `description`. A broken skill is
reported by its folder and left out.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field

from holdfast.core.errors import ToolFailed
from holdfast.core.messages import storable
from holdfast.tools.contract import ApprovalRequest, Tool, ToolContext, refusal
from holdfast.tools.decorator import tool
from holdfast.tools.resolved_path import read_bytes, resolve_path
from holdfast.tools.text_files import TextFile, replace_file

SKILL_FILE = "SKILL.md"
READ_SKILL = "read_skill"
MAX_SKILL_BYTES = 500_000
MAX_DESCRIPTION_LENGTH = 1024
NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
MAX_NAME_LENGTH = 64
FRONT_MATTER = re.compile(r"\A---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Skill:
    name: str
    description: str
    folder: Path


@dataclass(frozen=True, slots=True)
class SkillListing:
    """The usable skills, and the problems of the others."""

    skills: tuple[Skill, ...]
    problems: tuple[str, ...]

    def prompt(self) -> str:
        """The list for the system prompt; empty when there are none."""
        lines = [f"- {each.name}: {each.description}" for each in self.skills]
        return (
            "\n".join(["Skills that you can read with read_skill before you do such a thing:", *lines])
            if lines
            else ""
        )


class Skills:
    """A folder of skills. Its methods block on the disk."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def scan(self) -> SkillListing:
        """Read every skill's front matter."""
        skills: dict[str, Skill] = {}
        problems = []
        try:
            folders = sorted(each for each in self._folder.iterdir() if (each / SKILL_FILE).exists())
        except FileNotFoundError:
            folders = []
        except OSError as cause:
            return SkillListing((), (f"the skills folder {self._folder} can't be read: {cause.strerror}",))
        for folder in folders:
            try:
                skill = _read(folder)
            except ToolFailed as cause:
                problems.append(f"the skill in {folder.name} is left out: {cause}")
                continue
            if skill.name in skills:
                other = skills[skill.name].folder.name
                problems.append(f"the skill in {folder.name} is left out: {other} has its name too")
            else:
                skills[skill.name] = skill
        return SkillListing(tuple(skills.values()), tuple(problems))

    def tools(self) -> list[Tool]:
        return [tool(changes=False)(self.read_skill), tool(self.save_skill)]

    def read_skill(self, name: str, file: str = SKILL_FILE) -> str:
        """Read a skill before doing what it describes.

        Args:
            name: the skill's name, as listed
            file: another file of the skill, as its text names it

        """
        listing = self.scan()
        skill = next((each for each in listing.skills if each.name == name), None)
        if skill is None:
            known = ", ".join(each.name for each in listing.skills) or "none"
            raise ToolFailed(f"there is no skill {name!r}; there are: {known}")
        target = resolve_path(skill.folder, file)
        if not target.inside:
            raise ToolFailed(f"{file!r} is outside the skill's folder")
        data, _ = read_bytes(target, MAX_SKILL_BYTES)
        return storable(TextFile.decode(data, target.shown).text)

    async def save_skill(
        self,
        name: Annotated[str, Field(max_length=MAX_NAME_LENGTH, pattern=rf"^{NAME.pattern}$")],
        description: Annotated[str, Field(min_length=1, max_length=MAX_DESCRIPTION_LENGTH)],
        text: Annotated[str, Field(min_length=1, max_length=MAX_SKILL_BYTES // 4)],
        context: ToolContext,
    ) -> str:
        """Save how something is done, for later conversations. Replaces a skill of the same name.

        Args:
            name: small letters, digits and hyphens
            description: when to use it, in a sentence or two
            text: what to do, as Markdown

        """
        import yaml

        target = resolve_path(self._folder, f"{name}/{SKILL_FILE}")
        if not target.inside:
            raise ToolFailed(f"{name} is a link that leads out of the skills folder")
        reason = "a skill is read in later conversations"
        # A skill affects every later conversation, so no allow rule for writing covers it.
        request = ApprovalRequest(str(target.path), "write", reason, own_files=True)
        if not await context.person.approve(request):
            raise ToolFailed(f"{refusal(context.person)}; nothing was saved")
        front = yaml.safe_dump(
            {"name": name, "description": " ".join(description.split())}, allow_unicode=True
        )
        data = TextFile("").encode(f"---\n{front}---\n\n{text.strip()}\n", target.shown)
        new = await context.off_loop(replace_file, target, data)
        return f"{'saved' if new else 'replaced'} the skill {name}"


def _read(folder: Path) -> Skill:
    import yaml

    data, _ = read_bytes(resolve_path(folder, SKILL_FILE), MAX_SKILL_BYTES)
    found = FRONT_MATTER.match(TextFile.decode(data, SKILL_FILE).text)
    if found is None:
        raise ToolFailed(f"its {SKILL_FILE} does not begin with front matter between two lines of ---")
    try:
        front = yaml.safe_load(found[1])
    except (yaml.YAMLError, ValueError, RecursionError) as cause:
        raise ToolFailed(f"its front matter is not YAML: {' '.join(str(cause).split())[:300]}") from cause
    if not isinstance(front, dict):
        raise ToolFailed("its front matter has no name and no description")
    name, description = front.get("name"), front.get("description")
    if not isinstance(name, str) or not NAME.fullmatch(name) or len(name) > MAX_NAME_LENGTH:
        raise ToolFailed(f"its name must be small letters, digits and hyphens, not {name!r:.80}")
    if not isinstance(description, str) or not 0 < len(description.strip()) <= MAX_DESCRIPTION_LENGTH:
        raise ToolFailed(f"its description must be 1 to {MAX_DESCRIPTION_LENGTH} characters of text")
    return Skill(name, storable(" ".join(description.split())), folder)
