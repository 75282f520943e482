"""Benchmarks run at their least size, with some libraries out of sight."""

import importlib.util
import json
from pathlib import Path

from benchmarks import __main__

ROOT = Path(__file__).resolve().parents[2]


def run(tmp_path, *arguments, name="overhead"):
    path = tmp_path / "out.json"
    status = __main__.main([name, "--size", "tiny", "--json", str(path), *arguments])
    assert status == 0
    return json.loads(path.read_text())


def hide(monkeypatch, *names):
    """Let packages be as if they were not installed; `test_everything` has them."""
    there = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name in names else there(name)
    )


def case_of(found, name):
    return next(case for case in found["cases"] if case["name"] == name)
