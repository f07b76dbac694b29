"""Build the site from docs/ into site/: `make docs`. Nothing in it is loaded from the network.

The pages are copied, and completed by what the code knows: the tests of each clause, the public names, the
source files that a page links to, and an index for each folder. mkdocs then builds them, with warnings as
errors, in an environment of its own (the dependency group `docs`).
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import yaml

from tools.bootstrap import ROOT, ensure_uv, uv_environment
from tools.clauses import ClauseTable
from tools.guarantees import collect

DOCS = ROOT / "docs"
WORK = ROOT / ".cache" / "site"
PAGES = WORK / "docs"
MERMAID = "11.12.1"
MERMAID_SHA256 = "198b19442f86f0b46a17e56d3abf744c3a28a3427e66fa8dada3b589a77babcc"
LINK = re.compile(r"\]\((?P<target>[^)#:\s]+)(?P<anchor>#[^)\s]*)?\)")
CLAUSE = re.compile(r"^- (?P<id>[A-Z]\d+) ")
PROMISE = re.compile(r"^## (?P<letter>[MDCIX]) — ")
OTHERS = {
    "M": "a-turn-is-never-blocked-by-memory",
    "D": "a-completed-turn-is-never-lost",
    "C": "a-session-is-never-forked",
    "I": "a-users-word-is-never-dropped",
    "X": "the-program-always-exits",
}
"""The section of others.md for each promise."""
MOST_TESTS = 4
Nav = list[dict[str, object]]

NAV: dict[str, list[str]] = {
    "Start": ["index.md", "migrating.md", "comparison.md"],
    "Guides": [
        "tools.md",
        "small-models.md",
        "sessions.md",
        "schedules.md",
        "library.md",
        "testing-your-agent.md",
        "providers.md",
        "recall.md",
        "holographic.md",
        "memory-backends.md",
        "writing-a-provider.md",
        "chat-platforms.md",
        "chat-requirements.md",
        "writing-an-adapter.md",
        "terminal.md",
        "web-page.md",
        "editors.md",
        "mcp.md",
        "deploy.md",
        "postgres.md",
        "operations.md",
        "behind-a-proxy.md",
        "signing-in.md",
        "security.md",
        "users.md",
        "sandbox.md",
    ],
    "Guarantees": [
        "guarantees.md",
        "others.md",
        "report-cards.md",
        "end-to-end.md",
        "three-surfaces.md",
        "benchmarks.md",
        "memory-growth.md",
        "chat-benchmarks.md",
    ],
    "Reference": ["reference.md", "api.md", "http-api.md", "openai-clients.md"],
    "Inside": ["architecture.md", "internals/", "by-hand.md"],
    "Decisions": ["decisions/"],
}
"""The pages by their section; a folder stands for its pages. One that doesn't exist is left out."""
CONFIG = """
site_name: Holdfast
docs_dir: docs
site_dir: ../../site
use_directory_urls: false
strict: true
theme:
  name: material
  font: false
  features: [navigation.sections, navigation.top, content.code.copy, toc.follow]
  palette:
    - media: "(prefers-color-scheme: light)"
      scheme: default
      primary: teal
      toggle: {icon: material/weather-night, name: Dark}
    - media: "(prefers-color-scheme: dark)"
      scheme: slate
      primary: teal
      toggle: {icon: material/weather-sunny, name: Light}
plugins:
  - search
  - mkdocstrings:
      handlers:
        python:
          paths: [../../src]
          options: {show_source: false, show_root_heading: true, show_root_full_path: false,
                    members_order: source, inherited_members: true, heading_level: 2}
markdown_extensions:
  - admonition
  - attr_list
  - def_list
  - tables
  - toc: {permalink: true}
  - sane_lists
  - pymdownx.highlight
  - pymdownx.superfences:
      custom_fences:
        - name: mermaid
          class: mermaid
          format: !!python/name:pymdownx.superfences.fence_code_format
extra_javascript: [javascripts/mermaid.min.js, javascripts/diagrams.js]
extra_css: [stylesheets/site.css]
validation:
  links: {absolute_links: warn, unrecognized_links: warn, anchors: warn}
  nav: {omitted_files: info}
"""

# Fitted to the width of a phone, the words of a diagram could not be read: it keeps its size and scrolls, and
# a shadow at an edge says that there is more. Teal as it comes is too pale for text (3.8 to 1 on white).
LOOKS = {
    "javascripts/diagrams.js": """
const initialize = mermaid.initialize;
const size = { useMaxWidth: false };
const narrow = { actorMargin: 8, width: 136, messageMargin: 22, wrap: true };
mermaid.initialize = (given) =>
  initialize({ ...given, sequence: { ...given.sequence, ...size, ...narrow }, state: size });
""",
    "stylesheets/site.css": """
[data-md-color-scheme] { --md-primary-fg-color: #00695c; --md-typeset-a-color: #00695c; }
[data-md-color-scheme="slate"] { --md-typeset-a-color: #4db6ac; }
.md-typeset table:not([class]) code { word-break: normal; }
.md-typeset table:not([class]) td:first-child { min-width: 9rem; }
@media (max-width: 45em) { .md-typeset table:not([class]) td:last-child { min-width: 8rem; } }
.mermaid {
  overflow-x: auto;
  --cover: var(--md-default-bg-color);
  --shade: rgb(128 128 128 / 45%);
  background:
    linear-gradient(to right, var(--cover) 40%, transparent) left / 2rem 100% no-repeat local,
    linear-gradient(to left, var(--cover) 40%, transparent) right / 2rem 100% no-repeat local,
    linear-gradient(to right, var(--shade), transparent) left / 0.6rem 100% no-repeat scroll,
    linear-gradient(to left, var(--shade), transparent) right / 0.6rem 100% no-repeat scroll;
}
""",
}


class SiteNotBuilt(Exception):
    """The site could not be built."""


def stage(docs: Path, pages: Path, table: ClauseTable) -> None:
    """Copy the pages, and add what the code knows."""
    shutil.rmtree(pages, ignore_errors=True)
    shutil.copytree(docs, pages)
    (pages / "api.md").write_text(public_names(), encoding="utf-8")
    guarantees = pages / "guarantees.md"
    guarantees.write_text(with_tests(guarantees.read_text(encoding="utf-8"), table), encoding="utf-8")
    for folder in (each for each in pages.iterdir() if each.is_dir()):
        (folder / "index.md").write_text(folder_index(folder), encoding="utf-8")
    needed: set[str] = set()
    for page in sorted(pages.rglob("*.md")):
        text = page.read_text(encoding="utf-8")
        page.write_text(with_source_links(text, page.relative_to(pages), needed), encoding="utf-8")
    for path in sorted(needed):
        target = pages / "source" / f"{path}.md"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(source_page(path), encoding="utf-8")


def public_names() -> str:
    """A page with every name of `holdfast.__all__`, which mkdocstrings fills in."""
    import holdfast  # not before the tests are collected: pytest rewrites plugins when they are imported

    lines = [
        "# The names of the library",
        "",
        "`holdfast.__all__` is the promise; everything else may change.",
        "",
    ]
    for name in sorted(holdfast.__all__):
        value = getattr(holdfast, name)
        if isinstance(value, ModuleType):
            lines += [f"::: {value.__name__}", ""]
        elif callable(value) and hasattr(value, "__name__"):
            lines += [f"::: {value.__module__}.{value.__name__}", ""]
    return "\n".join(lines)


def with_tests(text: str, table: ClauseTable) -> str:
    """The guarantees, each clause with links to its tests."""
    lines: list[str] = []
    pending = ""
    for line in [*text.splitlines(), ""]:
        if pending and not line.startswith("  "):
            lines += [f"  <br>{pending}"]
            pending = ""
        if found := PROMISE.match(line):
            lines += ["", line, "", f"[What others do](others.md#{OTHERS[found['letter']]})", ""]
            continue
        if found := CLAUSE.match(line):
            pending = test_links(list(table.tests.get(found["id"], {})))
            line = f"- **{found['id']}** {line[found.end() :]}"  # noqa: PLW2901 - the same line, marked up
        if line.startswith("- ") and lines and lines[-1] and not lines[-1].startswith(("- ", "  ")):
            lines.append("")
        lines.append(line)
    return "\n".join(lines)


def test_links(tests: list[str]) -> str:
    """Links to the first tests, and how many there are."""
    shown = [
        f"[{test.rpartition('::')[2]}](../{test.partition('::')[0]})" for test in sorted(tests)[:MOST_TESTS]
    ]
    more = f" and {len(tests) - MOST_TESTS} more" if len(tests) > MOST_TESTS else ""
    return f"*Tests:* {', '.join(shown)}{more}" if shown else ""


def folder_index(folder: Path) -> str:
    """A page that lists the pages of a folder by their titles."""
    pages = [each for each in sorted(folder.glob("*.md")) if each.name != "index.md"]
    return "\n".join(
        [f"# {folder.name.capitalize()}", "", *(f"- [{title(each)}]({each.name})" for each in pages), ""]
    )


def title(page: Path) -> str:
    """The first heading."""
    return next(line[2:] for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("# "))


def with_source_links(text: str, page: Path, needed: set[str]) -> str:
    """The page with links to folders and to files outside docs/ turned to pages that show them."""
    up = "../" * (len(page.parts) - 1)

    def replaced(found: re.Match[str]) -> str:
        target = (DOCS / page.parent / found["target"]).resolve()
        if target.is_dir() and target.is_relative_to(DOCS):
            return f"]({up}{target.relative_to(DOCS)}/index.md)"
        if target.is_relative_to(DOCS) or not target.exists() or not target.is_relative_to(ROOT):
            return found[0]
        path = str(target.relative_to(ROOT))
        needed.update([path, *(f"{path}/{file.name}" for file in target.glob("*.py"))])
        return f"]({up}source/{path}.md)"

    return LINK.sub(replaced, text)


def source_page(path: str) -> str:
    """A file of the checkout as a page; a folder as the list of its Python files."""
    if (ROOT / path).is_dir():
        files = sorted(file.name for file in (ROOT / path).glob("*.py"))
        return "\n".join([f"# {path}", "", *(f"- [{name}]({path}/{name}.md)" for name in files), ""])
    text = (ROOT / path).read_text(encoding="utf-8")
    if path.endswith(".md"):
        return LINK.sub("]", text)  # its own links lead into the checkout
    fence = "`" * 4
    language = "python" if path.endswith(".py") else "text"
    return f"# {path}\n\n{fence}{language}\n{text}{fence}\n"


def navigation(pages: Path) -> Nav:
    """The sections with the pages that exist; raises `SiteNotBuilt` for a page that is in none."""
    listed: Nav = []
    seen: set[str] = set()
    for section, entries in NAV.items():
        found = [page for entry in entries for page in _pages_of(pages, entry)]
        seen |= set(found)
        listed.append({section: found})
    every = {str(each.relative_to(pages)) for each in pages.rglob("*.md")}
    if homeless := sorted(each for each in every - seen if not each.startswith("source/")):
        raise SiteNotBuilt(
            f"these pages are in no section of NAV in tools/docs_site.py: {', '.join(homeless)}"
        )
    return listed


def _pages_of(pages: Path, entry: str) -> list[str]:
    if entry.endswith("/"):
        inside = sorted((pages / entry).glob("*.md"), key=lambda each: (each.name != "index.md", each.name))
        return [f"{entry}{each.name}" for each in inside]
    return [entry] if (pages / entry).exists() else []


def add_mermaid(pages: Path) -> None:
    """Put the library that draws diagrams beside the pages, as npm delivers it, and how it is used."""
    folder = WORK / f"mermaid-{MERMAID}"
    file = folder / "node_modules" / "mermaid" / "dist" / "mermaid.min.js"
    if not file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        command = ["npm", "install", "--prefix", str(folder), "--ignore-scripts", "--no-audit", "--no-fund"]
        subprocess.run([*command, f"mermaid@{MERMAID}"], check=True, stdout=subprocess.DEVNULL)
    if hashlib.sha256(file.read_bytes()).hexdigest() != MERMAID_SHA256:
        raise SiteNotBuilt(
            f"{file} is not the file that is known; remove {folder} and look at what npm delivers"
        )
    target = pages / "javascripts" / "mermaid.min.js"
    target.parent.mkdir()
    shutil.copy(file, target)
    for name, text in LOOKS.items():
        (pages / name).parent.mkdir(exist_ok=True)
        (pages / name).write_text(text, encoding="utf-8")


def run_mkdocs() -> None:
    """Build, with warnings as errors."""
    environment = uv_environment(sys.executable, WORK / "environment")
    uv = str(ensure_uv(sys.executable))
    subprocess.run(
        [uv, "sync", "--frozen", "--quiet", "--only-group", "docs"], cwd=ROOT, env=environment, check=True
    )
    command = [
        str(WORK / "environment" / "bin" / "mkdocs"),
        "build",
        "--quiet",
        "--strict",
        "-f",
        "mkdocs.yml",
    ]
    # It warns of a release that will be incompatible; the lock file decides which one is used.
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}  # noqa: TID251 - handed on
    if subprocess.call(command, cwd=WORK, env=quiet) != 0:
        raise SiteNotBuilt("mkdocs refused the pages; its message is above")


def main() -> int:
    """Build the site."""
    try:
        WORK.mkdir(parents=True, exist_ok=True)
        stage(DOCS, PAGES, collect())
        add_mermaid(PAGES)
        nav = yaml.safe_dump({"nav": navigation(PAGES)}, sort_keys=False)
        (WORK / "mkdocs.yml").write_text(CONFIG + nav, encoding="utf-8")
        run_mkdocs()
    except (SiteNotBuilt, subprocess.CalledProcessError) as cause:
        print(f"No site was built: {cause}", file=sys.stderr)
        return 1
    print(json.dumps({"site": str(ROOT / "site" / "index.html"), "pages": len(list(PAGES.rglob("*.md")))}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
