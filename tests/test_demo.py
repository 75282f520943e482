"""``python -m lazyflow demo``: its goals, what it prints, its exit status."""

import re
import sys

import pytest

pytest.importorskip("sklearn")

from lazyflow import demo
from lazyflow.demo import main


def test_the_goals_are_reached_and_said(capsys):
    assert main(["--scheduler", "threads", "--chunks", "4"]) == 0
    text, errors = capsys.readouterr()
    assert errors == ""
    lines = text.splitlines()
    assert "1347 training rows in 4 chunks, 450 test rows, C = 1, scheduler threads" in lines[0]
    assert [line.split("(")[1] for line in lines if "lazyflow/learn" in line] == [
        "lazyflow/learn/solvers/lbfgs.py)",
        "lazyflow/learn/solvers/stochastic.py)",
    ]
    assert text.count("objective  max|gradient|   seconds") == 2
    checks = [line for line in lines if " goal " in line]
    assert len(checks) == 6
    assert all(line.endswith("ok") for line in checks)
    counts = re.findall(r"  ([\d,]+) tasks in [\d.]+ s; [\d.]+ µs per task outside", text)
    by_lbfgs, by_saga = [int(count.replace(",", "")) for count in counts]
    assert by_lbfgs > 80 and by_saga > 800  # seen: 103, of few passes, and 1,034
    assert re.fullmatch(r"6 of 6 goals reached in \d+\.\d s", lines[-1])


def test_a_timeline_and_a_summary_on_request(capsys, tmp_path):
    pytest.importorskip("bokeh")
    path = tmp_path / "demo.html"
    assert main(["--scheduler", "sync", "--chunks", "2", "--timeline", str(path)]) == 0
    text, _ = capsys.readouterr()
    assert "loss_sums" in text
    assert text.endswith(f"what ran where and when: {path}\n")
    assert "loss_sums" in path.read_text(encoding="utf-8")


def test_a_timeline_that_cannot_be_written_is_found_before_anything_runs(capsys, tmp_path):
    pytest.importorskip("bokeh")
    path = tmp_path / "no" / "folder.html"
    assert main(["--timeline", str(path)]) == 2
    assert capsys.readouterr() == ("", (
        f"python -m lazyflow demo: error: --timeline {path} can't be written: No such file or "
        "directory\n"
    ))


def test_a_missed_goal_is_said_and_is_exit_status_1(capsys, monkeypatch):
    monkeypatch.setattr(demo, "C", 1e-4)  # a penalty under which no model reads digits well
    assert main(["--scheduler", "sync", "--chunks", "2"]) == 1
    text, _ = capsys.readouterr()
    missed = [line for line in text.splitlines() if line.endswith("MISSED")]
    assert [line.split("  ")[1] for line in missed] == 2 * ["accuracy on the test rows"]
    assert "4 of 6 goals reached" in text


def test_the_fixed_order_stalls_and_the_cures_do_not(capsys):
    assert main(["--example", "block-cyclic-saga", "--scheduler", "sync"]) == 0
    text, _ = capsys.readouterr()
    assert "SAGA over 20 chunks of 200 rows x 20 features, scheduler sync" in text
    last = text.splitlines()[-2].split()
    assert float(last[1]) > 1e-5 > 1e4 * float(last[2])
    assert text.endswith("ok\n")


def test_without_scikit_learn_it_says_what_to_install(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    monkeypatch.setitem(sys.modules, "sklearn", None)
    assert main([]) == 1
    assert 'pip install "lazyflow[learn]"' in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--chunks", "0"], "--chunks must be from 1 to 1000, not 0"),
        (["--scheduler", "carrier-pigeon"], "invalid choice: 'carrier-pigeon'"),
    ],
)
def test_a_command_line_that_cannot_be_understood_is_exit_status_2(capsys, argv, words):
    with pytest.raises(SystemExit) as ended:
        main(argv)
    assert ended.value.code == 2
    assert words in capsys.readouterr().err
