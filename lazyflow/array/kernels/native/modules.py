"""LLVM's modules: functions with what they call."""

from __future__ import annotations

import re
from collections.abc import Sequence

from lazyflow.array.kernels.native.elementary.formulas import definitions


def module_text(lines: Sequence[str]) -> str:
    """Return the text of a module with these functions, and with the functions that they call."""
    found = [*lines, *definitions(lines)]
    calls = [line for line in found if "call" in line and "@llvm." in line]
    return "\n".join([*found, *sorted(set(map(_declaration, calls))), ""])


def _declaration(line: str) -> str:
    """Return the declaration of the intrinsic that a line calls."""
    kind, name, given = re.findall(r"call (.+?) @(llvm[\w.]+)\((.*)\)", line)[0]
    given = re.sub(r"splat \(.*?\)|<\w+ [-\d].*?>", "constant", given)
    types = ", ".join(each.rpartition(" ")[0] for each in given.split(", "))
    return f"declare {kind} @{name}({types})"
