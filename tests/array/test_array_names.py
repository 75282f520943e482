"""The names of lazyflow.array: what is public, how it is found, what misspelt ones get."""

import builtins
import doctest
import inspect
import pickle
import subprocess
import sys
from types import ModuleType

import numpy as np
import pytest
from array_checks import check

import lazyflow
import lazyflow.array as la
from lazyflow.array import dispatch
from lazyflow.array.functions.ufuncs import UFunc
from lazyflow.array.names import HELPERS, by_name


@pytest.mark.parametrize("name", [name for name in dir(la) if not name.startswith("_")])
def test_every_public_name_is_there(name):
    """Functions of ours have examples, ufuncs are NumPy's, and so are types and numbers."""
    found = getattr(la, name)
    if isinstance(found, UFunc):
        assert found.ufunc is getattr(np, name)
    elif isinstance(found, ModuleType):
        assert found.__name__ == f"lazyflow.array.{name}"
    elif str(getattr(found, "__module__", None)).startswith("lazyflow"):
        assert ">>> " in found.__doc__
    else:
        assert found is getattr(np, name)


def test_a_star_gets_all_but_the_names_of_python():
    given = {}
    exec("from lazyflow.array import *", given)
    public = {name for name in dir(la) if not name.startswith("_")}
    builtin = {name for name in public if hasattr(builtins, name)}
    assert builtin == {"abs", "all", "any", "bool", "divmod", "max", "min", "pow", "round", "sum"}
    assert public - builtin == set(given) - {"__builtins__"} == set(la.__all__)


@pytest.mark.parametrize("module", ["", "fft", "linalg", "ma", "overlap", "random", "stats"])
def test_results_have_no_private_names(module, tmp_path, monkeypatch):
    """Those of the examples: every public function has one."""
    monkeypatch.chdir(tmp_path)
    made, make = set(), la.Array.__init__
    monkeypatch.setattr(la.Array, "__init__", lambda x, expr: make(x, expr) or made.add(expr.name))
    found = getattr(la, module) if module else la
    for name in [name for name in dir(found) if not name.startswith("_")]:
        for test in doctest.DocTestFinder(recurse=False).find(getattr(found, name), name, globs={}):
            doctest.DocTestRunner(verbose=False).run(test, out=lambda text: None)
    assert made
    assert {name for name in made if name.startswith("_")} == set()


def test_helpers_and_modules_are_not_offered():
    shown = set(dir(la))
    assert shown & set(by_name(HELPERS)) == set()
    for name in by_name(HELPERS):
        with pytest.raises(AttributeError, match=f"has no attribute {name!r}"):
            getattr(la, name)
    assert not shown & {"core", "rechunking", "shaping", "builtins", "np", "Any", "find_spec"}


def test_a_misspelt_name_gets_the_nearest_public_one():
    with pytest.raises(AttributeError) as found:
        la.concatenat
    assert str(found.value) == (
        "module 'lazyflow.array' has no attribute 'concatenat'; did you mean 'concatenate'?"
    )
    with pytest.raises(AttributeError, match=r"no attribute 'fancy_itm'\.$"):
        la.fancy_itm


def test_functions_whose_names_modules_once_had():
    x = la.array([1, 2, 3])
    assert type(x) is la.Array
    assert la.rechunk(x, 2).chunks == ((2, 1),)
    assert la.rechunk([1, 2, 3], 2).chunks == x.rechunk(2).chunks


@pytest.mark.parametrize("code", [
    "print(np.concatenate([x, x]).shape)",
    "print(np.transpose(x).shape)",
    "print(np.amax(x).shape)",
    "print(np.around(x).shape)",
    "print(np.lib.stride_tricks.sliding_window_view(x, 2).shape)",
    "print(x.rechunk(1).blocks[0].shape)",
    "print((x ** 2).sum().shape)",
    "print(x[[0, 1]].shape)",
])
def test_numpy_and_methods_find_functions_that_were_not_loaded(code):
    """Each in a new process: nothing that an earlier one loaded helps."""
    start = "import numpy as np; from lazyflow.array.core import Array, as_node; "
    out = subprocess.run(
        [sys.executable, "-c", f"{start} x = Array(as_node(np.arange(4.0))); {code}"],
        capture_output=True, text=True, check=True,
    )
    assert out.stdout.startswith("(")


@pytest.mark.parametrize("axes", [
    (), (None,), ((1, 2, 0),), ([1, 2, 0],), (1, 2, 0), (np.array([2, 0, 1]),), (-1, 0, 1), ([],),
    (0, 1), (0, 0, 1), (0, 1, 3), ("a",),
])
def test_transpose_takes_axes_as_numpy_does(axes):
    a = np.arange(24).reshape(2, 3, 4)
    x = la.from_array(a, chunks=2)
    try:
        expected = a.transpose(*axes)
    except Exception as error:
        with pytest.raises(type(error)):
            x.transpose(*axes)
    else:
        np.testing.assert_array_equal(x.transpose(*axes).compute(), expected)


def test_partitions_are_blocks():
    x = la.arange(6, chunks=2)
    assert x.partitions[1].compute().tolist() == [2, 3]


def test_functions_of_other_modules_with_known_names_are_not_taken_for_them():
    x = la.arange(8, chunks=4).reshape(2, 2, 2)
    assert np.linalg.trace(x).compute().tolist() == [3, 11]  # of the last two axes
    assert np.trace(x).compute().tolist() == [6, 8]


@pytest.mark.parametrize(("name", "words"), [
    ("roots", "pass x.compute()"),
    ("hanning", "la.from_array(np.hanning(n), chunks)"), ("get_include", "NumPy's own"),
    ("svd", "'svd'."), ("conact", "did you mean 'concat'?"),
])
def test_names_that_are_not_there_yet(name, words):
    with pytest.raises(AttributeError) as found:
        getattr(la, name)
    assert words in str(found.value)
    assert "imag" not in str(found.value)


@pytest.mark.parametrize(("name", "words"), [
    ("dask", "x.visualize() draws the graph, la.report(x) says"),
    ("strides", "x.compute().strides"), ("rechunks", "did you mean 'rechunk'?"), ("xyz", "'xyz'."),
    ("_nothing", "'_nothing'"),
])
def test_attributes_that_arrays_do_not_have(name, words):
    with pytest.raises(AttributeError) as found:
        getattr(la.ones(3), name)
    assert words in str(found.value)
    assert not hasattr(la.ones(3), name)


@pytest.mark.parametrize("make", [
    la.asarray, la.array, la.asanyarray, la.from_array, la.sin, la.sum, la.sort,
])
def test_lazy_values_become_arrays_by_from_delayed(make):
    with pytest.raises(TypeError, match=r"la\.from_delayed\(x, shape, dtype\)"):
        make(lazyflow.delayed(np.ones)(3))


@pytest.mark.parametrize("name", ["add", "modf", "isnan", "arctan2"])
def test_ufuncs_say_what_those_of_numpy_say(name):
    for what in "nin", "nout", "nargs", "ntypes", "types", "identity", "signature", "__name__":
        assert getattr(getattr(la, name), what) == getattr(getattr(np, name), what)


def test_compute_and_persist_are_there():
    x = la.arange(4, chunks=2)
    assert la.compute(x.sum(), x.max()) == (6, 3)
    (kept,) = la.persist(x + 1)
    check(kept, np.arange(1, 5))
    assert la.compute is lazyflow.compute


@pytest.mark.parametrize("function", [
    la.sum, la.map_blocks, la.report, la.unique, la.vectorize, la.add.reduce,
])
def test_functions_are_pickled_by_name(function):
    made = pickle.loads(pickle.dumps(function))
    u = la.arange(6, chunks=2)
    assert made == function or made(u).compute() == function(u).compute()


def test_pickled_functions_find_out_lengths_in_a_new_process():
    data = pickle.dumps(la.diff)
    code = (
        f"import pickle; diff = pickle.loads({data!r}); import lazyflow.array as la; "
        "x = la.arange(6, chunks=2); print(diff(x[x > 2]).compute().tolist(), diff is la.diff)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout == "[1, 1] True\n"


def test_what_no_table_has_is_no_attribute():
    with pytest.raises(AttributeError, match="has no attribute 'nothing_like_it'"):
        dispatch.nothing_like_it


def test_numpy_functions_that_make_arrays_like_others():
    x = la.arange(3, chunks=2)
    made = [np.ones(3, like=x), np.full((2, 2), 7, like=x), np.tri(2, like=x)]
    assert all(isinstance(each, la.Array) for each in made)
    assert [each.sum().compute() for each in made] == [3, 28, 3]
    with pytest.raises(TypeError, match=r"np\.linspace takes no chunked arrays"):
        np.linspace(0, x, 2)


@pytest.mark.parametrize("name", ["sum", "reshape", "copy", "conj", "compress", "view"])
def test_bound_methods_are_pickled(name):
    args = {"reshape": [(3, 2)], "compress": [[True, False], 0], "view": ["u8"]}.get(name, [])
    x = la.arange(6, chunks=2).reshape(2, 3)
    again = pickle.loads(pickle.dumps(getattr(x, name)))
    np.testing.assert_array_equal(again(*args), getattr(np.arange(6).reshape(2, 3), name)(*args))


@pytest.mark.parametrize("name", ["sum", "clip", "take", "astype", "rechunk", "to_zarr"])
def test_methods_show_the_parameters_and_the_help_of_their_functions(name):
    function, method = getattr(la, name), getattr(la.ones(3), name)
    _, *wanted = inspect.signature(function).parameters.values()
    assert [*inspect.signature(method).parameters.values()] == wanted
    assert method.__doc__ == function.__doc__


def test_names_that_others_put_into_numpys_module_are_not_public():
    """numexpr does so: which names there are must not depend on what was imported before."""
    code = """
import numpy as np
np.expm1x = np.expm1
import lazyflow.array as la
assert not hasattr(la, "expm1x") and "expm1x" not in dir(la) and hasattr(la, "expm1")
"""
    subprocess.run([sys.executable, "-c", code], check=True)
