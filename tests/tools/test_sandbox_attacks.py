"""The sandbox as an attacker sees it: every way out that we know of is tried, and most of them bare as well.

`python -m tools.sandbox_report` writes the outcomes into docs/sandbox.md.
"""

import os
import threading
from pathlib import Path

import pytest

from tests.tools.live_processes import carrying
from tests.tools.sandbox_attack import Attack, got_out
from tests.tools.sandbox_attacks import EVERY
from tests.tools.sandbox_targets import OUT, SECRET, ground, run_in

pytestmark = [pytest.mark.timeout(120), pytest.mark.usefixtures("bubblewrap"), pytest.mark.clause("S2")]


def works_bare(attack: Attack) -> bool:
    return attack.works_bare and not attack.open and (os.geteuid() == 0 or not attack.root_only)


@pytest.mark.parametrize("attack", [each for each in EVERY if not each.open], ids=lambda each: each.what)
def test_the_sandbox_holds_against(attack: Attack) -> None:
    with ground() as place:
        assert got_out(attack, place, "bubblewrap") == ""


@pytest.mark.parametrize("attack", [each for each in EVERY if each.open], ids=lambda each: each.what)
def test_what_the_documents_call_open_is_open(attack: Attack) -> None:
    with ground() as place:
        assert got_out(attack, place, "bubblewrap") != ""


@pytest.mark.slow
@pytest.mark.parametrize("attack", [each for each in EVERY if works_bare(each)], ids=lambda each: each.what)
def test_without_a_sandbox_the_same_attack_gets_out(attack: Attack) -> None:
    with ground() as place:
        assert got_out(attack, place, "off") != ""
        for pid in carrying(place.tag):
            os.kill(pid, 9)


@pytest.mark.parametrize("name", ["with blank", "line\nend", "--bind", "quo'te \"$(touch x)", "ünïcode"])
def test_the_name_of_the_workspace_is_only_a_name(name: str) -> None:
    with ground(workspace=name) as place:
        assert "kept" in run_in(place, "echo kept > here; cat here; cat $SECRET_FILE", "bubblewrap")
        assert (place.workspace / "here").read_text() == "kept\n"
        assert place.harmed() == ""


def test_a_workspace_that_is_a_link_shows_what_it_leads_to_and_nothing_else() -> None:
    with ground() as place:
        (place.base / "linked").symlink_to(place.workspace)
        (place.workspace.parent / "sibling").write_text(SECRET)
        real, place.workspace = place.workspace, place.base / "linked"
        said = run_in(place, "echo kept > here; cat ../sibling ../home/sibling", "bubblewrap")
        assert SECRET not in said
        assert (real / "here").read_text() == "kept\n"


def test_in_a_home_folder_known_secrets_are_hidden_and_start_up_files_stay() -> None:
    with ground(workspace=".") as place:
        said = run_in(
            place,
            "cat .ssh/id_rsa; mv .ssh s2; cat s2/id_rsa; echo $OUT-later >> .bashrc; mv .bashrc b; "
            "echo $OUT-later > .bashrc; echo fine > file",
            "bubblewrap",
        )
        assert SECRET not in said
        assert place.harmed() == ""
        assert (place.home / "file").read_text() == "fine\n"


def test_a_process_of_an_earlier_command_can_not_have_a_folder_outside_shown() -> None:
    """It swaps a link out and a folder for `.git`, as fast as it can, while other commands start."""
    swap = (
        "rm -rf .git; mkdir real; ln -s $OUTSIDE bad; "
        "end=$(($(date +%s) + 4)); while [ $(date +%s) -lt $end ]; do "
        "mv -T real .git; mv -T .git real; mv -T bad .git; mv -T .git bad; done"
    )
    with ground() as place:
        (place.workspace / ".git").rename(place.base / "git")
        swapping = threading.Thread(target=run_in, args=(place, swap, "bubblewrap"))
        swapping.start()
        try:
            while swapping.is_alive():
                said = run_in(place, "cat .git/secret bad/secret; echo x > .git/new", "bubblewrap")
                assert SECRET not in said
        finally:
            swapping.join()
        assert place.harmed() == ""


@pytest.mark.parametrize("workspace", ["/", "/etc", "/usr"])
def test_a_workspace_that_no_sandbox_can_hold_is_refused(workspace: str) -> None:
    with ground() as place:
        place.workspace = Path(workspace)
        with pytest.raises(Exception, match="Nothing was run"):
            run_in(place, f"echo {OUT}", "bubblewrap")


def test_the_documents_list_every_way_with_its_outcome(checkout: Path) -> None:
    page = (checkout / "docs" / "sandbox.md").read_text(encoding="utf-8")
    for attack in EVERY:
        assert f": {attack.what} | " in page, f"run `python -m tools.sandbox_report`: {attack.what}"
    assert "got out" not in page
