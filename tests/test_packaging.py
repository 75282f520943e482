"""What installing, importing and reporting rest on: setup.cfg and what must agree with it."""

import configparser
import os
import pathlib
import re
import subprocess
import sys

import pytest

import lazyflow
from lazyflow.__main__ import main
from lazyflow.diagnostics import environment
from lazyflow.diagnostics.environment import ENGINES, NEEDED, OPTIONAL

CHECKOUT = pathlib.Path(lazyflow.__file__).parent.parent
#: Extras for work on lazyflow itself.
FOR_DEVELOPERS = {"bench", "dev", "docs", "test"}
#: Those that `all` leaves out: they are large, and not there for every Python.
LARGE = {"keras", "ray", "torch"}


@pytest.fixture(scope="module")
def setup():
    setup = configparser.ConfigParser()
    setup.read(CHECKOUT / "setup.cfg")
    return setup


def versions(text):
    """Return the oldest version of each package of a list of requirements."""
    found = re.findall(r"^([\w-]+)(?:\[.*\])? ?>=([\d.]+)$", text, re.MULTILINE)
    assert len(found) == len(text.strip().splitlines()), text
    return dict(found)


def run(code, **environ):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60,
        env=os.environ | {"PYTHONPATH": str(CHECKOUT)} | environ)


# -- what is said in several places ----------------------------------------------------------


def test_versions_are_said_alike(setup):
    assert setup["metadata"]["version"] == lazyflow.__version__
    oldest, newest = 11, 13
    assert setup["options"]["python_requires"] == f">=3.{oldest}"
    pythons = re.findall(r"Python :: 3\.(\d+)", setup["metadata"]["classifiers"])
    assert pythons == [str(minor) for minor in range(oldest, newest + 1)]
    readme = (CHECKOUT / "README.rst").read_text()
    assert f"with Python 3.{oldest} and 3.{newest}" in readme and "With Python 3.12" in readme


def test_the_recipe_for_conda_is_that_of_setup(setup):
    text = (CHECKOUT / "conda" / "recipe.yaml").read_text()
    assert f'version: "{lazyflow.__version__}"' in text
    assert setup["metadata"]["description"] in text
    host, run = re.findall(r"^  (?:host|run):\n((?:    - .*\n)+)", text, re.MULTILINE)
    python = {"python": setup["options"]["python_requires"].removeprefix(">=")}
    build = re.search(r'requires = \["(.*)"\]', (CHECKOUT / "pyproject.toml").read_text())[1]
    plain = "    - python-gil\n", "    - pip\n"
    for lines, wanted in (run, setup["options"]["install_requires"]), (host, build):
        for each in plain:
            lines = lines.replace(each, "")
        assert versions(lines.replace("    - ", "")) == python | versions(wanted)


def test_extras_for_programs_stand_in_the_readme_and_in_all(setup):
    extras = setup["options.extras_require"]
    programs = set(extras) - FOR_DEVELOPERS - {"all"}
    assert extras["all"].strip() == f"lazyflow[{','.join(sorted(programs - LARGE))}]"
    table = (CHECKOUT / "README.rst").read_text().partition("\nExtras\n")[2]
    rows = dict(re.findall(r"^``(\w+)`` +\S.*?  +(\S.*)$", table, re.MULTILINE))
    assert set(rows) == programs
    assert re.search(rf"^``all`` +the above but {', '.join(sorted(LARGE)[:-1])} and "
                     rf"{max(LARGE)}$", table, re.MULTILINE)
    for extra in programs:
        assert set(rows[extra].split(", ")) == set(versions(extras[extra])), extra


def test_the_report_names_what_lazyflow_uses(setup):
    extras = setup["options.extras_require"]
    programs = set().union(*(versions(extras[e]) for e in set(extras) - FOR_DEVELOPERS - {"all"}))
    assert set(NEEDED) == set(versions(setup["options"]["install_requires"]))
    assert {*ENGINES, *OPTIONAL} <= programs


# -- python -m lazyflow info -------------------------------------------------------------------


def section(text, title):
    """Return the lines of one section of a report, by the names they begin with."""
    lines = re.search(rf"^{title}\n((?:  .*\n?)*)", text, re.MULTILINE)[1]
    return {line[2:17].strip(): line[18:] for line in lines.splitlines()}


def test_info_says_what_a_bug_report_needs(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("LAZYFLOW_NUM_WORKERS", "3")
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = tmp_path / "kernels"
    with lazyflow.config.set(num_workers=3, scheduler="sync", kernel_cache=str(folder)):
        assert main(["info"]) == 0
        text = capsys.readouterr().out
        folder.mkdir(mode=0o700)
        (folder / "one").write_bytes(bytes(1 << 20))
        kept = environment()
        folder.chmod(0o777)
        open_to_all = environment()
    assert section(text, "versions")["lazyflow"].startswith(lazyflow.__version__)
    assert section(text, "versions")["numpy"] == sys.modules["numpy"].__version__
    cores = section(text, "machine")["cores"]
    assert cores == f"{lazyflow.config.cpu_count()} for this process, of {os.cpu_count()}"
    settings = section(text, "settings")
    assert settings["runs on"] == "sync, 3 workers"
    assert "LAZYFLOW_NUM_WORKERS '3' in the environment" in text
    assert "max_runs_ahead" not in settings  # as it is where none is set
    assert set(ENGINES) < set(section(text, "schedulers"))
    assert "held_bytes" in section(text, "in use")["memory"]
    if section(text, "kernels of arrays")["compiler"] == "compiles":
        assert section(text, "kernels of arrays")["cache"] == "~/kernels, not made yet"
        assert section(kept, "kernels of arrays")["cache"] == "~/kernels, 1 files of 1.0 MiB"
        assert "not used: ~/kernels can be written by others" in open_to_all
    assert str(tmp_path) not in text


def test_limits_and_schedulers_in_use_are_reported():
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    lazyflow.compute(lazyflow.delayed(abs)(-1), scheduler="processes", num_workers=1)
    try:
        resource.setrlimit(resource.RLIMIT_CORE, (0, hard))
        text = environment()
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, (soft, hard))
    assert section(text, "limits of the process")["RLIMIT_CORE"].startswith("0")
    assert "workers: [" in section(text, "in use")["processes"]


def test_info_takes_no_words(capsys):
    assert main(["info", "--help"]) == 0
    assert main(["info", "versions"]) == 2
    assert capsys.readouterr().err == "usage: python -m lazyflow info\n"


# -- imports -----------------------------------------------------------------------------------

#: The most modules of lazyflow, and of others but NumPy, that an import loads; seen were 49 and 44,
#: and 95 and 74.
BUDGET = {"lazyflow": (52, 50), "lazyflow.array": (100, 80)}
#: What no import loads: each takes milliseconds, or brings what does.
HEAVY = {
    "argparse", "asyncio", "bokeh", "cloudpickle", "concurrent", "dask", "distributed", "email",
    "h5py", "hashlib", "html", "http", "importlib.metadata", "joblib", "json",
    "lazyflow.array.functions", "lazyflow.array.kernels.run", "lazyflow.array.random",
    "lazyflow.diagnostics", "llvmlite", "logging", "multiprocessing", "numba", "numpy.ma",
    "numpy.random", "numpy.testing", "pandas", "pathlib", "polars", "pyarrow", "ray", "rich",
    "scipy", "shutil", "sklearn", "socket", "ssl", "subprocess", "tempfile", "torch", "tqdm",
    "unittest", "urllib", "uuid", "xarray", "zarr",
}


@pytest.mark.parametrize("module", BUDGET)
def test_imports_stay_in_their_budget(module):
    """By `-X importtime`, which lists what the import loads; the times differ from run to run."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", f"import {module}"], text=True,
        capture_output=True, check=True, env=os.environ | {"PYTHONPATH": str(CHECKOUT)})
    loaded = re.findall(r"\| +([\w.]+)$", done.stderr.partition(" site\n")[2], re.MULTILINE)
    heavy = HEAVY | ({"inspect", "numpy"} if module == "lazyflow" else set())
    assert [m for m in loaded if any(f"{m}.".startswith(f"{h}.") for h in heavy)] == []
    own = sum(m.partition(".")[0] == "lazyflow" for m in loaded)
    others = sum(m.partition(".")[0] not in ("lazyflow", "numpy") for m in loaded)
    most_own, most_others = BUDGET[module]
    assert own <= most_own
    assert others <= most_others


def test_a_python_without_the_gil_is_refused():
    done = run("import sys; sys._is_gil_enabled = lambda: False; import lazyflow")
    assert done.returncode == 1
    assert "ImportError: lazyflow needs the GIL" in done.stderr
    assert "PYTHON_GIL=1" in done.stderr
    done = run("import sys; sys._is_gil_enabled = lambda: True; import lazyflow")
    assert (done.returncode, done.stderr) == (0, "")
