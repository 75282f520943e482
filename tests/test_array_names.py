"""The names of lazyflow.array: what is public, how it is found, what misspelt ones get."""

import builtins
import subprocess
import sys

import numpy as np
import pytest

import lazyflow.array as la
from lazyflow.array.names import HELPERS, by_name


@pytest.mark.parametrize("name", [name for name in dir(la) if not name.startswith("_")])
def test_every_public_name_is_there(name):
    found = getattr(la, name)
    if callable(found):
        assert found.__doc__, name


def test_a_star_gets_all_but_the_names_of_python():
    given = {}
    exec("from lazyflow.array import *", given)
    public = {name for name in dir(la) if not name.startswith("_")}
    builtin = {name for name in public if hasattr(builtins, name)}
    assert builtin == {"abs", "all", "any", "bool", "divmod", "max", "min", "pow", "round", "sum"}
    assert public - builtin == set(given) - {"__builtins__"} == set(la.__all__)


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
        np.testing.assert_array_equal(x.transpose(*axes).compute(scheduler="sync"), expected)


def test_partitions_are_blocks():
    x = la.arange(6, chunks=2)
    assert x.partitions[1].compute(scheduler="sync").tolist() == [2, 3]


def test_functions_of_other_modules_with_known_names_are_not_taken_for_them():
    with pytest.raises(TypeError, match=r"numpy\.linalg\.trace does not work on chunked arrays"):
        np.linalg.trace(la.ones((2, 2)))
