"""The generator of random programs makes the same of a number, and sees what differs."""

import re

import numpy as np
import pytest
from array_programs import steps
from array_programs.__main__ import differences
from array_programs.comparing import Computed, difference
from array_programs.faults import tells_one_of_two
from array_programs.program import LINES, Different, Line, Program, make, parse, run
from array_programs.shrinking import shrunk

import lazyflow.array as la
from lazyflow.array.names import PUBLIC, by_name


def test_a_number_is_a_program_and_its_code_is_it():
    for seed in range(20):
        program = make(seed)
        assert str(make(seed)) == str(program)
        read = parse(str(program))
        assert (read.lines, read.settings) == (program.lines, program.settings)


#: What no step calls.
NO_STEP = {
    "Array", "from_delayed", "to_delayed", "wait_compiled", "report",  # nothing of NumPy's
    "todense", "PerformanceWarning", "__array_namespace_info__",
    "normalize_chunks",  # of chunks alone
    "store", "to_zarr", "from_zarr", "from_npy_stack", "to_npy_stack", "to_hdf5",  # files
    "coarsen", "moment", "push", "reshape_blockwise", "shuffle",  # dask's
    "busday_count", "busday_offset", "datetime_as_string", "is_busday",  # of dates alone
    "einsum_path", "from_dlpack", "min_scalar_type",  # give no arrays, or no others
    "diag_indices_from", "mask_indices", "polydiv", "polyfit",  # of small or special inputs
}


def called():
    """Return the names that the steps call: of functions and, as a set of their own, of ufuncs."""
    text = "\n".join(line for lines in LINES.values() for line in lines)
    names = {"from_array"}  # every input
    for before, word, after in re.findall(r"\b(?:xp|np)\.(\w*)(?:\{(\w+)\})?(\w*)", text):
        names |= {before + each + after for each in steps.WORDS.get(word, "").split() or [""]}
    return names, {getattr(np, name) for name in names if hasattr(np, name)}


def test_every_public_function_and_ufunc_is_in_a_step():
    names, functions = called()
    assert set(by_name(PUBLIC)) - names == NO_STEP
    ufuncs = {each for each in vars(np).values() if isinstance(each, np.ufunc)}
    assert {each.__name__ for each in ufuncs - functions} == set()


@pytest.mark.parametrize(("found", "wanted", "why"), [
    (np.ones(2), np.ones(3), "shape"),
    (np.ones(2), np.ones(2, ">f8"), "type"),
    (np.ones(2), np.full(2, 1 + 2e-16), "ulps"),
    (np.ones(2), np.array([1, 1.1]), "values"),
    (np.zeros(2), np.array([0.0, -0.0]), "sign of zero"),
    (np.ones(2), ValueError("no"), "passes here"),
    (TypeError("no"), ValueError("no"), "error"),
    (TypeError("no"), np.ones(2), "raises here"),
    (np.array([1, np.nan]), np.array([1, np.nan]), None),
    (IndexError("no"), IndexError("never"), None),
])
def test_what_a_difference_is_called(found, wanted, why):
    mine = found
    if isinstance(found, np.ndarray):
        mine = Computed(found, found.dtype, found.shape)
    made = difference(mine, wanted, None)
    assert (made and made[0]) == why


def test_a_wrong_result_is_found_and_shrunk(monkeypatch):
    program = parse(
        "v0 = given(np.array([3, 1, 2], '<i8').reshape((3,)), ((2, 1),))\n"
        "v1 = v0 + 1\nv2 = xp.sort(v0, axis=0)\nv3 = v2 * 2\n"
    )
    assert run(program) == (None, 4)
    monkeypatch.setattr(la, "sort", lambda x, axis: x)
    different, _ = run(program)
    assert different.why == "values" and different.line.name == "v2"
    assert [line.name for line in shrunk(different).program.lines] == ["v0", "v2"]
    assert differences([])[0] == []


@pytest.mark.parametrize(("code", "mine", "explained"), [
    ("v0[5] = 'a'", ValueError("no number"), True),
    ("v0[5] = 'a'", KeyError("no fault of the line"), False),
    ("v0[5] = 1.0", ValueError("no number"), False),
    ("v0[[5]] = np.ones(3)", ValueError("3 into 1"), True),
    ("v0[5] = np.ones(3)", ValueError("a sequence"), True),
    ("xp.insert(v0, 5, 'a')", ValueError("no number"), True),
    ("xp.insert(v0, 5, 1)", ValueError("no number"), False),
    ("xp.concatenate([v0, v1[:, None]])", TypeError("no common type"), True),
    ("xp.concatenate([v0, v0[:, None]])", TypeError("no common type"), False),
])
def test_another_error_is_right_if_the_line_has_that_fault_too(code, mine, explained):
    name = None if code.startswith("v0[") else "v2"
    line = Line(code, name, "exact" if name else "changes", None if name else "v0")
    given = {"v0": np.ones(2), "v1": np.ones(2, "M8[s]")}
    before = {each: given[each] for each in line.uses}
    different = Different(Program(0, (line,)), line, "error", "", mine, IndexError("5"), before)
    assert tells_one_of_two(different) is explained


def test_random_programs_give_what_numpy_gives():
    found, counts = differences(range(30))
    assert counts["programs"] == 30
    assert [f"{each.what}\n{each.program}" for each in found] == []


@pytest.mark.slow
def test_many_random_programs_give_what_numpy_gives():
    found, _ = differences(range(50_000, 50_500))
    assert [f"{each.what}\n{each.program}" for each in found] == []
