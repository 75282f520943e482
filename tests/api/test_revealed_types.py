"""What type checkers understand: `typed_program.py` says of each line what they must reveal.

.ci/run runs the slow ones after mypy, whose cache they use.
"""

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

import lazyflow
from lazyflow import Delayed, Future, delayed

CHECKOUT = pathlib.Path(lazyflow.__file__).parent.parent
PROGRAM = CHECKOUT / "tests" / "helpers" / "typed_program.py"
SAME = {"Unknown": "Any", "y: int = 2": "y: int =", "(x: int, y: int =)": "[x: int, y: int =]"}


def same(text):
    """Return a type as both checkers and the program's comments write it."""
    text = re.sub(r"\b(?:lazyflow|typed_program|builtins)(?:\.\w+)*\.", "", text)
    for ones, others in SAME.items():
        text = text.replace(ones, others)
    return text


def wanted():
    """Return the types that the program's comments name, and the lines of its errors."""
    types, errors = {}, set()
    for number, line in enumerate(PROGRAM.read_text().splitlines(), 1):
        code, _, comment = line.partition("  # ")
        if comment == "error":
            errors.add(number)
        elif "reveal_type(" in code:
            types[number] = same(comment)
    return types, errors


@pytest.mark.slow
def test_mypy_reveals_the_types():
    pytest.importorskip("mypy")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", "setup.cfg",
         PROGRAM.relative_to(CHECKOUT)],
        capture_output=True, text=True, env=os.environ | {"MYPYPATH": "."}, cwd=CHECKOUT)
    found = re.findall(r'^\S+?:(\d+): note: Revealed type is "(.*)"$', done.stdout, re.MULTILINE)
    errors = {int(n) for n in re.findall(r"^\S+?:(\d+): error:", done.stdout, re.MULTILINE)}
    assert ({int(n): same(text) for n, text in found}, errors) == wanted(), done.stdout


@pytest.mark.slow
def test_pyright_reveals_the_types(tmp_path):
    pytest.importorskip("pyright")
    done = subprocess.run(
        [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, PROGRAM],
        capture_output=True, text=True, cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(CHECKOUT), "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"})
    found, errors = {}, set()
    for each in json.loads(done.stdout)["generalDiagnostics"]:
        number = each["range"]["start"]["line"] + 1
        if each["severity"] == "error":
            errors.add(number)
        elif revealed := re.match('Type of ".*" is "(.*)"$', each["message"]):
            found[number] = same(revealed[1])
    assert (found, errors) == wanted()


def test_types_of_annotations_can_be_named_when_the_program_runs():
    for generic in Delayed, Future:
        assert (generic[int].__origin__, generic[int].__args__) == (generic, (int,))
    assert not hasattr(delayed(abs)(-1), "__dict__")
