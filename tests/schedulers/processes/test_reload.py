"""Modules that are edited and reloaded while workers have them."""

import importlib
import os
import runpy
import sys
import textwrap
import warnings

import pytest

import lazyflow
from lazyflow import LazyflowWarning, compute, delayed
from lazyflow.schedulers.remote.environment import versions

HM = "K = {}\ndef helper(x): return x + K\ndef f(x): return helper(x)\n"


class Folder:
    """Modules of a program, each version of which is a second younger than the one before."""

    time = 10**18

    def __init__(self, path):
        self.path = path
        self.names = set()

    def write(self, name, text):
        path = self.path / (name.replace(".", "/") + ".py")
        path.parent.mkdir(exist_ok=True)
        path.write_text(textwrap.dedent(text))
        Folder.time += 10**9
        os.utime(path, ns=(self.time, self.time))
        self.names.add(name.removesuffix(".__init__"))
        importlib.invalidate_caches()

    def load(self, name, text):
        """Write and import a module; reload it if it is there."""
        self.write(name, text)
        name = name.removesuffix(".__init__")
        if name in sys.modules:
            return importlib.reload(sys.modules[name])
        return importlib.import_module(name)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where a program's modules lie; the pool is there before the folder is on the path."""
    compute(delayed(abs)(1), scheduler="processes")
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.syspath_prepend(tmp_path)
    found = Folder(tmp_path)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".* was reloaded", LazyflowWarning)
        yield found
        compute(delayed(abs)(1), scheduler="processes")  # said here, not to another test
    for name in found.names & sys.modules.keys():
        del sys.modules[name]
    engine = sys.modules.get("lazyflow.schedulers.cluster.dask.scheduler")
    for scheduler in engine._made.living() if engine else ():  # other tests are not told of this
        scheduler._reloads = versions.look()


def on(scheduler, *functions):
    return compute([delayed(f)(1) for f in functions], scheduler=scheduler, num_workers=1)[0]


def same(*functions):
    """What threads and processes agree on."""
    found = on("processes", *functions)
    assert found == on("threads", *functions)
    return found


def new_workers():
    """End those that have the modules; the path is as it was when these begin."""
    lazyflow.shutdown()


def test_what_a_function_calls_is_the_callers(folder):
    hm = folder.load("hm", HM.format(1))
    by_module, held = lambda x: hm.helper(x), hm.helper
    by_name = lambda x: held(x)  # noqa: E731
    assert same(hm.f, by_module, by_name) == [2, 2, 2]
    folder.load("hm", HM.format(1000))  # a constant
    assert same(hm.f, by_module, by_name) == [1001, 1001, 1001]
    folder.load("hm", HM.format(1).replace("x + K", "x * 50"))
    assert same(hm.f, by_module, by_name) == [50, 50, 2]  # the program holds the old one


def test_defaults_classes_and_submodules(folder):
    folder.load("pk.__init__", "")
    hm = folder.load("pk.hm", "class C:\n def go(self): return 1\ndef f(x, k=1): return x + k\n")
    user = folder.load("pk.user", "from . import hm\ndef g(x): return hm.C().go()\n")
    assert same(user.g, hm.f) == [1, 2]
    folder.load("pk.hm", "class C:\n def go(self): return 7\ndef f(x, k=9): return x + k\n")
    assert same(user.g, hm.f) == [7, 10]


def test_a_reload_of_what_was_not_edited(folder):
    """It takes over what another module has now; as does importing it anew."""
    folder.load("pk.__init__", "")
    b = folder.load("pk.b", "K = 1\n")
    a = folder.load("pk.a", "from .b import K\ndef f(x): return x + K\n")
    assert same(a.f) == [2]
    folder.load("pk.b", "K = 100\n")
    assert same(a.f) == [2]
    new_workers()
    with pytest.raises(RuntimeError, match="pk.a has pk.b.K as it was before pk.b was reloaded"):
        on("processes", a.f)
    importlib.reload(a)
    assert same(a.f) == [101]
    folder.write("pk.b", "K = 1000\n")
    for module in a, b:
        del sys.modules[module.__name__]
    assert same(importlib.import_module("pk.a").f) == [1001]


def test_a_part_of_the_old_module_is_kept_by_others(folder):
    """With importlib.reload it is so in the program: new workers can't have that."""
    folder.load("hm", "def helper(x): return x + 1\n")
    other = folder.load("other", "from hm import helper\ndef g(x): return helper(x)\n")
    assert same(other.g) == [2]
    folder.load("hm", "def helper(x): return x + 1000\n")
    assert same(other.g) == [2]
    new_workers()
    with pytest.raises(RuntimeError, match=r"other has hm.helper as it was before hm was reloaded"):
        on("processes", other.g)
    importlib.reload(other)
    assert same(other.g) == [1001]


def test_what_is_edited_and_not_reloaded(folder):
    hm = folder.load("hm", HM.format(1))
    assert same(hm.f) == [2]
    folder.write("hm", HM.format(1000))
    assert same(hm.f, hm.helper) == [2, 2]
    new_workers()
    with pytest.raises(RuntimeError, match="version of module hm: .* edited since. Reload it"):
        on("processes", hm.f)
    assert on("processes", abs) == [1]
    importlib.reload(hm)
    assert same(hm.f) == [1001]


def test_an_edit_before_the_first_look_is_seen_too(folder):
    hm = folder.load("hm", HM.format(1))
    folder.write("hm", HM.format(1000))
    with pytest.raises(RuntimeError, match="hm.py was edited after this program imported it"):
        on("processes", hm.f)
    importlib.reload(hm)
    assert same(hm.f) == [1001]


def test_a_reload_that_fails_in_the_worker(folder):
    text = HM + "import os\nif os.path.exists({!r}): raise ValueError('not here')\n"
    flag = str(folder.path / "flag")
    hm = folder.load("hm", text.format(1, flag))
    assert same(hm.f) == [2]
    folder.load("hm", text.format(1000, flag))
    open(flag, "w").close()
    expected = "the program has reloaded module hm, and its worker can't: ValueError: not here"
    with pytest.raises(RuntimeError, match=expected):
        on("processes", hm.f)
    os.remove(flag)
    importlib.reload(folder.load("hm", text.format(1000, flag)))
    assert same(hm.f) == [1001]


def test_modules_that_only_tasks_import(folder):
    folder.write("hm", HM.format(1))

    def f(x):
        import hm

        return hm.f(x)

    assert on("processes", f) == [2]
    folder.write("hm", HM.format(1000))
    assert on("processes", f) == [1001]


def test_it_is_said_once(folder):
    new_workers()
    hm = folder.load("hm", HM.format(1))
    assert on("processes", hm.f) == [2]
    folder.load("hm", HM.format(2))
    with pytest.warns(LazyflowWarning, match="^hm was reloaded: the workers .* reload it too"):
        assert on("processes", hm.f) == [3]
    folder.load("hm", HM.format(3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert on("processes", hm.f) == [4]


def test_kept_values_stay_usable(folder):
    hm = folder.load("hm", "class C:\n def go(self): return 1\ndef make(): return [C(), C()]\n")
    kept = delayed(hm.make)().persist(scheduler="processes", num_workers=1)
    assert [x.go() for x in kept.compute()] == [1, 1]
    hm = folder.load("hm", "class C:\n def go(self): return 2\ndef make(): return [C(), C()]\n")
    gone = delayed(lambda pair, kind: (pair[0].go(), type(pair[0]) is kind().__class__))
    # As on threads after importlib.reload: objects keep their class.
    assert gone(kept, lambda: hm.C()).compute(scheduler="processes") == (1, False)


def test_actors_see_reloaded_functions(folder):
    hm = folder.load("hm", HM.format(1))

    class Caller:
        def go(self, x):
            return hm.f(x)

    actor = lazyflow.actor(Caller, scheduler="processes")()
    assert actor.go(1).result() == 2
    folder.load("hm", HM.format(1000))
    assert actor.go(1).result() == 1001


def test_what_is_set_on_a_module_stays_in_the_program(folder):
    """As with multiprocessing, dask and joblib."""
    hm = folder.load("hm", HM.format(1))
    hm.K = 1000
    assert on("threads", hm.f) == [1001]
    assert on("processes", hm.f) == [2]


def test_a_script_that_was_run_by_path(folder):
    folder.write("script", "K = 2\ndef inner(x): return x + K\ndef f(x): return inner(x)\n")
    found = runpy.run_path(str(folder.path / "script.py"))
    assert same(found["f"]) == [3]
    folder.write("script", """
        from lazyflow import compute, delayed
        class C:
            def go(self, x): return x
        def f(x): return C().go(x) + 1
        got = compute(delayed(f)(1), scheduler="processes")
    """)
    assert runpy.run_path(str(folder.path / "script.py"))["got"] == (2,)


@pytest.mark.slow
def test_autoreload_of_a_notebook(tmp_path):
    """IPython's autoreload patches old functions, classes and objects: workers do so, too."""
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    cells = [
        """
        %load_ext autoreload
        %autoreload 2
        import os, pathlib, warnings
        def write(name, text, n):
            path = pathlib.Path(name)
            path.write_text(text)
            os.utime(path, (10**9 + n, 10**9 + n))
        write("hm.py", "K = 1\\ndef helper(x): return x + K\\n"
              "class C:\\n def go(self, x): return helper(x)\\n", 0)
        write("other.py", "from hm import helper\\ndef g(x): return helper(x)\\n", 0)
        import lazyflow, hm, other
        from hm import helper
        from lazyflow import compute, delayed
        def show(*more):
            tasks = [hm.helper, lambda x: hm.helper(x), lambda x: helper(x), other.g, *more]
            for on in "threads", "processes":
                print(compute([delayed(f)(1) for f in tasks], scheduler=on, num_workers=1)[0])
        show()
        actor = lazyflow.actor(hm.C, scheduler="processes")()
        print(actor.go(1).result())
        """,
        """
        write("hm.py", "K = 1\\ndef helper(x): return x + 1000\\n"
              "class C:\\n def go(self, x): return helper(x)\\n", 1)
        """,
        "show(); print(actor.go(1).result())",
        """
        write("hm.py", "import math\\nK = 5\\ndef helper(x): return x * K\\n"
              "class C:\\n def go(self, x): return helper(x), 'new'\\n", 2)
        """,
        "show(); print(actor.go(1).result())",
        """
        lazyflow.shutdown()
        show()
        """,
    ]
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(textwrap.dedent(each)) for each in cells]
    )
    root = os.path.dirname(os.path.dirname(lazyflow.__file__))
    client = nbclient.NotebookClient(
        notebook, timeout=60, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute(env={**os.environ, "PYTHONPATH": root})
    shown = [
        "".join(o["text"] for o in cell["outputs"] if o.get("name") == "stdout").split("\n")[:-1]
        for cell in notebook.cells
    ]
    assert shown[0] == ["[2, 2, 2, 2]", "[2, 2, 2, 2]", "2"]
    assert shown[2] == ["[1001, 1001, 1001, 1001]", "[1001, 1001, 1001, 1001]", "1001"]
    assert shown[4] == ["[5, 5, 5, 5]", "[5, 5, 5, 5]", "(5, 'new')"]
    assert shown[5] == ["[5, 5, 5, 5]", "[5, 5, 5, 5]"]
