"""Recognises destructive commands. They need a person's approval even when an allow rule covers them.

This searches the text of a command for known forms, with and without its quotes. It protects against
accidents, not against a hostile command, which can hide what it does; every command needs approval for this
reason.
"""

import re
from dataclasses import dataclass

ONE_COMMAND = re.compile(r"[;&|\n]")
ONE_PIPELINE = re.compile(r"[;\n]")
# The `&` in these does not end a command: `git push 2>&1 --force` is one command.
REDIRECTION = re.compile(r"[<>]&|&>")
QUOTES = str.maketrans("", "", "\\'\"")
RECURSIVE = r"\s-(?:\w*[rR]\w*|-recursive)(?![\w-])"
SHELLS = r"(?:ba|z|da|k|fi)?sh|python[\d.]*|perl|ruby|node|php"


def _word(words: str) -> str:
    """A pattern for one of the words as a command: not as part of a longer word, a flag or a file name."""
    return rf"(?<![\w.-])(?:{words})(?![\w-])"


@dataclass(frozen=True, slots=True)
class _DangerPattern:
    """Patterns that follow each other in a command. Each is simple, so a search takes linear time."""

    reason: str
    steps: tuple[re.Pattern[str], ...]
    within: re.Pattern[str] = ONE_COMMAND

    def matches(self, text: str) -> bool:
        return any(self._in_order(piece) for piece in self.within.split(text))

    def _in_order(self, piece: str) -> bool:
        at = 0
        for step in self.steps:
            found = step.search(piece, at)
            if found is None:
                return False
            at = found.end()
        return True


def _form(reason: str, *steps: str, within: re.Pattern[str] = ONE_COMMAND) -> _DangerPattern:
    return _DangerPattern(reason, tuple(re.compile(step) for step in steps), within)


_GIT = _word("git")
_DOWNLOAD = _word("curl|wget")
_FORMS = (
    _form("deletes folders with all they hold", _word("rm"), RECURSIVE),
    _form("deletes all it finds", _word("find"), r"\s-delete\b|\s-exec(?:dir)?\s+(?:\S*/)?rm\b"),
    _form("deletes all it is given", _word("xargs|parallel"), _word("rm")),
    _form("erases a disk or a file for good", _word("shred|wipefs|blkdiscard|fdisk|sfdisk|parted")),
    _form("formats a disk", r"(?<![\w.-])mkfs(?:\.\w+)?(?![\w-])"),
    _form("copies raw data over a file or a disk", _word("dd"), r"\s(?:of|if)="),
    _form("writes to a device", r">\s*/dev/(?!null\b|stdout\b|stderr\b|tty\b|fd/)"),
    _form(
        "overwrites or deletes what others have pushed",
        _GIT,
        r"\spush\b",
        r"\s(?:--force\S*|-\w*f\w*|--mirror|--delete|-d|\+\S+|:\S+)(?=\s|$)",
    ),
    _form("discards changes that are not committed", _GIT, r"\sreset\b", r"\s--(?:hard|merge)\b"),
    _form("deletes files that git does not know", _GIT, r"\sclean\b", r"\s-(?:\w*[fdxX]|-force)"),
    _form(
        "discards changes that are not committed", _GIT, r"\s(?:checkout|restore)\b", r"\s--\s|\s\.(?=\s|$)"
    ),
    _form("discards commits", _GIT, r"\sbranch\b", r"\s-\w*D"),
    _form("discards commits", _GIT, r"\sstash\s+(?:drop|clear)\b|\sfilter-branch\b|\sreflog\s+expire\b"),
    _form("stops the machine", _word("shutdown|reboot|halt|poweroff") + r"|\binit\s+[06]\b"),
    _form("ends processes by name", _word("killall|pkill")),
    _form("ends every process", _word("kill"), r"\s-1(?=\s|$)"),
    _form(
        "changes the rights of a whole folder", _word("chmod|chown|chgrp|setfacl"), r"\s-(?:\w*R|-recursive)"
    ),
    _form("runs what it downloads", _DOWNLOAD, r"\|", _word(SHELLS), within=ONE_PIPELINE),
    _form(
        "runs what it downloads",
        _word(SHELLS + "|eval|source"),
        r"<\(|\$\(|`",
        _DOWNLOAD,
        within=ONE_PIPELINE,
    ),
    _form(
        "drops a part of a database",
        r"(?i:\bdrop\s+(?:table|database|schema|view|index|user|role|tablespace)\b)|\bdrop(?:db|user)\b",
    ),
    _form("deletes rows of a database", r"(?i:\btruncate\s+table\b|\bdelete\s+from\b)"),
    _form("is a fork bomb", r":\s*\(\)\s*\{", within=ONE_PIPELINE),
    _form("deletes the scheduled jobs", _word("crontab"), r"\s-\w*r"),
    _form("deletes what runs elsewhere", _word("terraform|tofu|pulumi"), r"\sdestroy\b"),
    _form("deletes what runs elsewhere", _word("kubectl"), r"\sdelete\b"),
    _form("deletes containers or their data", _word("docker|podman"), r"\sprune\b|\svolume\s+rm\b"),
)


def destructive(command: str) -> str | None:
    """What the command would destroy, as text; None when it matches no known form."""
    line = REDIRECTION.sub(">", command.replace("\\\n", ""))
    for text in (line, line.translate(QUOTES)):
        for form in _FORMS:
            if form.matches(text):
                return form.reason
    return None
