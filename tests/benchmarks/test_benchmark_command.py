"""`python -m benchmarks`: what there is, its options, and all of it as a user would type it."""

import json
import re
import subprocess
import sys

import pytest
from benchmark_tools import ROOT
from fault_tools import without_heartbeats

from benchmarks import (
    __main__,
    actors,
    bench,
    cluster,
    engines,
    observers,
    overhead,
    processes,
    survey,
)


class TestCommand:
    def test_alone_it_lists_what_there_is(self, capsys):
        assert __main__.main([]) == 0
        out = capsys.readouterr().out
        for name, module in __main__.BENCHMARKS.items():
            assert f"  {name} " in out
            assert module.__doc__.splitlines()[0] in out

    def test_an_unknown_name_is_answered_with_the_known_ones(self, capsys):
        assert __main__.main(["overhaed"]) == 2
        known = ", ".join(__main__.BENCHMARKS)
        assert "arrays, engines, cluster, survey" in known
        said = f"no benchmark is named 'overhaed'; there is: {known}\n"
        assert capsys.readouterr().err == said

    @pytest.mark.parametrize("module", [overhead, observers, processes, actors, engines, cluster])
    def test_help_has_a_sentence_for_each_case(self, module, capsys):
        with pytest.raises(SystemExit) as end:
            __main__.main([module.__name__.split(".")[1], "--help"])
        assert end.value.code == 0
        out = capsys.readouterr().out
        for name, case in module.CASES.items():
            assert name in out and bench.title_of(case) in out

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (["--repeat", "0"], "--repeat 0: at least 1"),
            (["--json", "no/such/folder/x.json"], "the folder of no/such/folder/x.json"),
            (["--only", "trees"], "invalid choice: 'trees'"),
        ],
    )
    def test_bad_options_are_found_before_anything_is_measured(self, arguments, said, capsys):
        with pytest.raises(SystemExit) as end:
            __main__.main(["overhead", "--size", "tiny", *arguments])
        assert end.value.code == 2
        assert said in capsys.readouterr().err

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (["--repeat", "0"], "--repeat 0: at least 1"),
            (["--chunks", "-3"], "--chunks -3: at least 1"),
            (["--json", "no/such/folder/x.json"], "the folder of no/such/folder/x.json"),
            (["--only", "summ", "--only", "zip"],
             "no expression has summ or zip in it; groups are: reductions, "),
        ],
    )
    def test_bad_options_of_the_survey_are_found_too(self, arguments, said, capsys):
        with pytest.raises(SystemExit) as end:
            __main__.main(["survey", "--size", "tiny", *arguments])
        assert end.value.code == 2
        assert said in " ".join(capsys.readouterr().err.split())

    def test_the_memory_of_a_case_is_compared_with_dasks(self, capsys):
        pytest.importorskip("dask.array")
        __main__.main(["survey-memory", "--size", "tiny", "--only", "x.max"])
        head, row, end = capsys.readouterr().out.splitlines()
        assert head.split()[-8:] == ["code", "dask", "first", "dask", "/", "again", "dask", "/"]
        assert row.startswith("x.max(axis=1) ")
        assert float(row.split()[2]) > float(row.split()[1])  # dask's code is larger
        assert end.startswith("above dask's: ")
        with pytest.raises(SystemExit):
            __main__.main(["survey-memory", "--only", "x.mxa"])
        assert "--only x.mxa: no expression has this text" in capsys.readouterr().err

    def test_an_interrupted_survey_says_so(self, capsys, monkeypatch):
        cases = iter([survey.Case("reductions", "x.sum()", {"lazyflow": 1.0, "numpy": 2.0}, {})])

        def measured(*_):
            for case in cases:
                return case
            raise KeyboardInterrupt

        monkeypatch.setattr(survey, "run_case", measured)
        assert __main__.main(["survey", "--size", "tiny", "--only", "x.sum"]) == 130
        out = capsys.readouterr().out
        assert "numpy: 1 cases, in the median 2.00 times as fast" in out
        assert re.search(r"interrupted: 1 of \d+ cases", out)


@pytest.mark.parametrize(("module", "only"), [
    (overhead, ["chain", "persist"]),
    pytest.param(observers, ["sync"], marks=pytest.mark.slow),
    *(pytest.param(module, [], marks=pytest.mark.slow)
      for module in (actors, overhead, processes, engines, cluster)),
])
def test_everything_as_a_user_would_type_it(module, only, tmp_path):
    """All cases take minutes where all peers are installed."""
    path, name = tmp_path / "out.json", module.__name__.split(".")[1]
    command = [sys.executable, "-m", "benchmarks", name, "--size", "tiny", "--json", path]
    command += [word for case in only for word in ("--only", case)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, without_heartbeats(done.stderr)) == (0, "")
    cases = json.loads(path.read_text())["cases"]
    assert [case["name"] for case in cases] == (only or list(module.CASES))
    assert not any("failed" in why for case in cases for why in case["absent"].values())
