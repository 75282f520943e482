"""`benchmarks scale` compares answers, of numbers of workers bit by bit."""

import json

import numpy as np
import pytest

from benchmarks import scale


def test_other_bits_by_other_workers_are_found():
    one, other = scale.Timed(1.0, np.array([0.1 + 0.2])), scale.Timed(1.0, np.array([0.3]))
    scale.compare("sum", [one, one], [other, None])
    with pytest.raises(AssertionError, match="sum: by other workers"):
        scale.compare("sum", [one, other], [])


def test_another_answer_of_a_peer_is_found():
    one, other = scale.Timed(1.0, np.array([1.0])), scale.Timed(1.0, np.array([1.1]))
    with pytest.raises(AssertionError, match="sum"):
        scale.compare("sum", [one], [None, other])


def test_numbers_of_workers():
    assert scale.counts(16, 0) == [1, 2, 4, 8, 16]
    assert scale.counts(6, 0) == [1, 2, 4, 6]
    assert scale.counts(2, 16) == [1, 2, 8, 16]


def test_rows_by_hand_have_our_answers():
    data = scale.Data(1_280)
    for name, work in scale.WORKS.items():
        if work.answers and work.hand:
            ours = scale.measured(work, data, 2, 1)
            scale.compare(name, [ours], [scale.by_hand(work, data, 2, 1)])


def test_the_table_is_printed(capsys):
    assert scale.main(["--size", "tiny", "--repeat", "1", "--only", "x.sum()"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].split()[-4:] == ["share", "by", "hand", "dask"]
    assert lines[3].startswith("x.sum()")


def test_rows_of_more_workers_than_cores_have_a_goal(tmp_path):
    path = tmp_path / "scale.json"
    given = ["--size", "tiny", "--repeat", "1", "--oversubscribe", "16", "--json", str(path)]
    assert scale.main([*given, "--only", "x.sum()", "x.mean(0)"]) == 0
    (case,) = json.loads(path.read_text(encoding="utf-8"))["cases"]
    assert [row["label"] for row in case["rows"]] == ["x.sum()", "x.mean(0)"]
    assert {row["goal"] for row in case["rows"]} == {"≤ 1.25"}
