"""The page of all benchmarks: what each printed, and first of all which goals were met."""

import subprocess

import pytest

from benchmarks import results
from benchmarks.results import Report, page


def row(**more):
    found = {
        "label": "whole", "case": "tree", "result": 52.71, "goal": "≥ 40", "met": True,
        "why_unjudged": "",
    }
    return found | more


def test_a_table_of_goals_has_a_line_for_each():
    unjudged = row(met=None, result=None, why_unjudged="(tiny)")
    text = page([
        Report("overhead", "2 cores", [row(), row(case="flat", met=False)]),
        Report("arrays", "3 cores", [unjudged]),
    ])
    lines = text.splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("benchmark"))
    assert [line.split() for line in lines[first + 2 : first + 5]] == [
        ["overhead", "tree", "whole", "52.7", "≥", "40", "met"],
        ["overhead", "flat", "whole", "52.7", "≥", "40", "NOT", "MET"],
        ["arrays", "tree", "whole", "-", "≥", "40", "(tiny)"],
    ]
    assert text.endswith(
        "python -m benchmarks arrays\n---------------------------\n\n.. code-block:: text\n\n"
        "    3 cores\n"
    )


def test_a_benchmark_that_fails_is_no_result():
    with pytest.raises(subprocess.CalledProcessError):
        results.run("overhead", "--size", "none such")


def test_a_folder_that_is_not_there_is_refused_before_hours_of_work(capsys, tmp_path):
    path = tmp_path / "none" / "page.rst"
    with pytest.raises(SystemExit):
        results.main(["--write", str(path)])
    assert f"the folder of {path} does not exist" in capsys.readouterr().err
