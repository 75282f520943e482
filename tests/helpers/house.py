"""Figures of the package's structure: ``python tests/helpers/house.py`` prints them.

Modules and their lines, modules that a single other one imports, and the way of one call (see
`way_of_a_call`). Few modules with much in each, and short ways, are easier to learn.
"""

import ast
from collections import Counter
from pathlib import Path
from statistics import median

from way_of_a_call import walk

import lazyflow

ROOT = Path(lazyflow.__file__).parent


def modules(root=ROOT):
    """Return the files of modules by dotted name; packages' own files aside."""
    return {
        ".".join(path.relative_to(root.parent).with_suffix("").parts): path
        for path in sorted(root.rglob("*.py"))
        if path.name != "__init__.py"
    }


def imported(tree, names):
    """Yield the modules that a module imports, wherever in it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            inside = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from {name if name in names else node.module for name in inside} & names.keys()


def figures():
    """Yield the lines that are printed."""
    names = modules()
    lines = {name: path.read_text(encoding="utf-8").count("\n") for name, path in names.items()}
    users = Counter(
        other
        for name, path in names.items()
        for other in set(imported(ast.parse(path.read_text(encoding="utf-8")), names)) - {name}
    )
    longest = max(lines, key=lines.__getitem__)
    short = sum(n < 100 for n in lines.values())
    yield f"{len(names)} modules, {sum(lines.values()):,} lines"
    yield f"half have more than {median(lines.values()):.0f} lines; {short} fewer than 100"
    yield f"the longest is {longest}: {lines[longest]}"
    yield f"{sum(n == 1 for n in users.values())} are imported by one other module"
    for scheduler in ("threads", "processes"):
        way = walk(scheduler)
        yield f"a call on {scheduler}: {len(way.files)} files, {way.returns} returns"


if __name__ == "__main__":
    for line in figures():
        print(line)
