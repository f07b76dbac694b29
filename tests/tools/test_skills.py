"""Skills are listed, read and saved; a broken one is reported and left out."""

from pathlib import Path

import pytest

from holdfast.core.errors import ToolArgumentsInvalid, ToolFailed
from holdfast.tools.skills import Skills
from tests.tools.call_fixtures import Calls


def put(folder: Path, name: str, text: str | bytes) -> None:
    (folder / name).mkdir(parents=True)
    (folder / name / "SKILL.md").write_bytes(text if isinstance(text, bytes) else text.encode())


GOOD = "---\nname: {name}\ndescription: >\n  How to\n  do it.\nextra: [1]\n---\n# Do it\n"


def test_skills_are_listed_for_the_prompt_and_read_on_demand(calls: Calls, tmp_path: Path) -> None:
    put(tmp_path, "one", GOOD.format(name="one"))
    put(tmp_path, "two", GOOD.format(name="two").replace("\n", "\r\n"))
    (tmp_path / "one" / "more.md").write_text("more")
    (tmp_path / "no-skill").mkdir()
    (tmp_path / "file").write_text("x")
    skills = Skills(tmp_path)
    listing = skills.scan()
    assert listing.problems == ()
    assert listing.prompt().endswith("- one: How to do it.\n- two: How to do it.")
    read, _ = skills.tools()
    assert calls.run(read, name="one").text == GOOD.format(name="one")
    assert calls.run(read, name="one", file="more.md").text == "more"


def test_without_skills_there_is_nothing_in_the_prompt(tmp_path: Path) -> None:
    assert Skills(tmp_path / "none").scan().prompt() == ""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("no front matter", "does not begin with front matter"),
        ("---\nname: x\ndescription: never closed", "does not begin with front matter"),
        ("---\n- a\n---\n", "no name and no description"),
        ("---\n---\n", "no name and no description"),
        ("---\nname: [\n---\n", "not YAML"),
        ("---\nname: Bad Name\ndescription: x\n---\n", "small letters"),
        ("---\nname: ../x\ndescription: x\n---\n", "small letters"),
        ("---\nname: 1\ndescription: x\n---\n", "small letters"),
        ("---\nname: x\n---\n", "description must be"),
        ("---\nname: x\ndescription: ''\n---\n", "description must be"),
        ("---\nname: x\ndescription: " + "y" * 2000 + "\n---\n", "description must be"),
        ("---\nname: !!python/object/apply:os.system ['x']\n---\n", "not YAML"),
        ("---\n" + "[" * 2000 + "\n---\n", "not YAML"),
        (b"\x00\x01", "not text"),
        (b"x" * 600_000, "the most this tool reads"),
    ],
)
def test_a_broken_skill_is_reported_by_its_folder_and_the_others_work(
    tmp_path: Path, text: str | bytes, said: str
) -> None:
    put(tmp_path, "broken", text)
    put(tmp_path, "good", GOOD.format(name="good"))
    listing = Skills(tmp_path).scan()
    assert [each.name for each in listing.skills] == ["good"]
    (problem,) = listing.problems
    assert problem.startswith("the skill in broken is left out: ")
    assert said in problem


def test_two_skills_of_one_name_are_told(tmp_path: Path) -> None:
    put(tmp_path, "a", GOOD.format(name="same"))
    put(tmp_path, "b", GOOD.format(name="same"))
    listing = Skills(tmp_path).scan()
    assert listing.problems == ("the skill in b is left out: a has its name too",)


@pytest.mark.parametrize("file", ["../../secret", "/etc/passwd", "link", "\x00"])
def test_reading_a_skill_does_not_lead_out_of_it(calls: Calls, tmp_path: Path, file: str) -> None:
    put(tmp_path / "skills", "one", GOOD.format(name="one"))
    (tmp_path / "secret").write_text("x")
    (tmp_path / "skills/one/link").symlink_to(tmp_path / "secret")
    with pytest.raises(ToolFailed, match=r"outside the skill's folder|not a usable path"):
        calls.run(Skills(tmp_path / "skills").tools()[0], name="one", file=file)
    with pytest.raises(ToolFailed, match=r"no skill '\.\./one'; there are: one"):
        calls.run(Skills(tmp_path / "skills").tools()[0], name="../one")


def test_a_skill_is_saved_when_a_person_allows_it(calls: Calls, tmp_path: Path) -> None:
    skills = Skills(tmp_path / "skills")
    read, save = skills.tools()
    saved = {"name": "ship-it", "description": "How: to 'ship'\n---\nit", "text": "# Steps\n\n1. go\n"}
    assert calls.run(save, **saved).text == "saved the skill ship-it"
    assert calls.person.asked[0].kind == "write"
    (skill,) = skills.scan().skills
    assert skill.description == "How: to 'ship' --- it"
    assert calls.run(read, name="ship-it").text.endswith("---\n\n# Steps\n\n1. go\n")
    assert calls.run(save, **saved).text == "replaced the skill ship-it"
    calls.person.yes = False
    with pytest.raises(ToolFailed, match="nothing was saved"):
        calls.run(save, **{**saved, "name": "other"})
    assert len(skills.scan().skills) == 1


@pytest.mark.parametrize("name", ["", "../x", "A", "a b", "-a", "x" * 65, "a\n"])
def test_a_skill_with_another_name_is_not_saved(calls: Calls, tmp_path: Path, name: str) -> None:
    with pytest.raises(ToolArgumentsInvalid):
        calls.run(Skills(tmp_path).tools()[1], name=name, description="d", text="t")
