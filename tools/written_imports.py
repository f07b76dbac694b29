"""Try every import that an installed package writes, at any depth: `python written_imports.py holdfast`.

Many imports stand in functions, where only those who use an extra meet them. This needs nothing but Python,
so that it runs in any environment. `testing` is left out: parts of it need pytest.
"""

import ast
import importlib
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path

LEFT_OUT = "testing"


def written_imports(folder: Path) -> Iterator[tuple[Path, str, str]]:
    """Each file with a module that it imports, and the name that it takes of it or none."""
    for file in sorted(folder.rglob("*.py")):
        if file.relative_to(folder).parts[0] == LEFT_OUT:
            continue
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                yield from ((file, each.name, "") for each in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
                yield from ((file, node.module, each.name) for each in node.names)


def failure(module: str, name: str) -> str:
    """Why this import fails, or nothing."""
    try:
        found = importlib.import_module(module)
        if name and not hasattr(found, name):
            importlib.import_module(f"{module}.{name}")
    except ImportError as cause:
        return str(cause)
    return ""


def main(package: str) -> int:
    """Print the imports that fail; returns 1 when there are any."""
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None:
        print(f"{package} is not installed")
        return 1
    tried: dict[tuple[str, str], str] = {}
    for file, module, name in written_imports(Path(found.origin).parent):
        if (module, name) not in tried:
            tried[module, name] = failure(module, name)
            if tried[module, name]:
                print(f"{file}: {module} {name}: {tried[module, name]}")
    print(f"{len(tried)} imports, {sum(map(bool, tried.values()))} of them fail")
    return 1 if any(tried.values()) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
