"""dask's own tests of arrays with the import changed.

``python tests/helpers/dasks_array_tests.py`` takes those of the installed dask. Each file is
written anew into a temporary directory, with other imports: what `lazyflow.array` and `lazyflow`
have under a name of dask's stands for it, and so do `assert_eq` and `same_keys` below. pytest runs
them. The share that passed is printed, with what was left out and why, and the exit status is 1 if
the share is below ``--bound``.

Left out are tests that dask skips or expects to fail, and those of how dask's graphs are built,
found by the names that they use: graphs, keys, tokens, functions that are not public, and arrays
made of graphs. So are tests in `NOT_NUMPYS`, and the rest of a test once `refused` finds that
lazyflow does what dask refuses: what dask has not implemented, and what `REFUSED_BY_DASK` lists.
All are counted, by reason. Where a test asks whether an array *is* another, it is enough that they
are equal: NumPy makes a new one, and a write into a view is one into the array.
"""

import argparse
import ast
import sys
import tempfile
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import dask.array
import numpy as np
import pytest

import lazyflow
import lazyflow.array as la

TESTS = Path(dask.array.__file__).parent / "tests"

#: Whole files that are left out.
FILES = {
    "test_array_expr_incompatible": "dask's two kinds of graphs",
    "test_optimization": "dask's optimisation of graphs",
    "test_atop": "dask's optimisation of graphs",
    "test_chunk": "functions of blocks that are not public",
    "test_image": "images are read by lazyflow.delayed functions",
    "test_dispatch": "arrays of other libraries that register as chunks",
    "test_numpy_compat": "dask's copies of NumPy's functions",
    "test_svg": "how dask draws chunks",
    "test_testing": "dask's assert_eq",
    "test_array_utils": "dask's assert_eq, and functions that are not public",
    "test_api": "which names dask lists",
}

#: Tests that expect an error, of what NumPy does.
REFUSED_BY_DASK = {
    "test_roll": "NumPy broadcasts shifts and axes",
    "test_nd_ffts_axes": "NumPy transforms an axis twice",
    "test_cant_fft_chunked_axis": "dask can't transform an axis of several chunks",
    "test_sfqr": "dask can't factor such chunks",
    "test_tsqr": "dask can't factor such chunks",
    "test_qr": "dask can't factor such chunks",
    "test_lu_errors": "dask can't factor such chunks",
    "test_solve_triangular_errors": "dask can't solve by such chunks",
    "test_arg_reductions_unknown_chunksize": "dask can't find places in chunks of unknown lengths",
    "test_arg_reductions_unknown_chunksize_2d":
        "dask can't find places in chunks of unknown lengths",
    "test_histogramdd_raises_incompat_sample_chunks": "dask can't match such chunks",
    "test_histogramdd_raises_incompat_multiarg_chunks": "dask can't match such chunks",
    "test_histogramdd_raises_incompat_weight_chunks": "dask can't match such chunks",
    "test_apply_gufunc_check_inhomogeneous_chunksize": "dask can't match such chunks",
    "test_to_zarr_unknown_chunks_raises": "dask can't write chunks of unknown lengths",
    "test_len_object_with_unknown_size": "dask can't compute an unknown length",
    "test_empty_chunk_nanmin_nanmax": "dask can't reduce chunks of unknown lengths",
    "test_apply_gufunc_elemwise_01b": "dask can't match such chunks",
    "test_like_forgets_graph": "dask can't pickle functions of functions",
    "test_array_notimpl_function_dask": "dask computes what lazyflow has",
    "test_compute_chunk_sizes_warning_fixes_concatenate": "dask can't join unknown lengths",
    "test_compute_chunk_sizes_warning_fixes_slicing": "dask can't select of unknown lengths",
    "test_broadcast_to_chunks": "dask can't broadcast to other chunks",
    "test_histogramdd_raise_incompat_shape": "NumPy takes samples with one axis",
    "test_unsupported_ufunc_methods": "NumPy reduces by ufuncs",
    "test_choice": "NumPy chooses rows of a matrix",
    "test_view": "NumPy views parts of any length",
    "test_non_existent_func": "dask computes what lazyflow has",
    "test_solve_assume_a": "dask deprecates a keyword",
    "test_scipy_fftpack_future_warning": "dask deprecates a keyword",
    "test_map_overlap_deprecated_signature": "dask deprecates an order of parameters",
    "test_full_detects_da_dtype": "dask deprecates an array as fill_value",
    "test_array_interface_deprecated_kwargs": "dask deprecates a keyword",
}

#: Tests of what NumPy does otherwise, as lazyflow does.
NOT_NUMPYS = {
    "test_numpy_asarray_copy_false": "NumPy raises where copy=False can't be",
    "test_setitem_with_different_chunks_preserves_shape": "NumPy refuses masks of floats",
    "test_array_reduction_out": "NumPy refuses out= of integers for floats",
    "test_array_ufunc_out": "NumPy refuses out= of integers for floats",
    "test_out_shape_mismatch": "NumPy refuses out= of integers for floats",
    "test_slice_with_floats": "NumPy raises TypeError",
    "test_setitem_errs": "NumPy raises TypeError",
    "test_diag_bad_input": "NumPy's error has other words",
    "test_svd_incompatible_dimensions": "NumPy's error has other words, and it takes stacks",
    "test_concatenate_errs": "NumPy's error has other words",
    "test_stack_errs": "NumPy's error has other words",
    "test_histogramdd_raises_incompat_bins_or_range": "NumPy's error has other words",
    "test_average_raises": "NumPy raises where weights add up to 0",
}

#: Attributes that only dask's graphs, and arrays made of them, have.
OF_GRAPHS = {
    "dask", "dependencies", "layers", "name", "_name", "_meta", "meta", "_key", "key", "_chunks",
    "to_tiledb", "to_dask_dataframe", "to_svg", "from_tiledb", "map_partitions", "blockdims",
    "validate",
}

#: Modules of dask.array that are not public.
INTERNAL = ("core", "utils", "routines", "chunk", "reductions")

#: Modules of dask's whose names are not about graphs.
PLAIN = ("dask.array.numpy_compat", "dask.utils")

NOT_PLAIN = {"key_split", "funcname", "typename"}


def assert_eq(a, b, check_shape=True, check_type=True, check_dtype=True, equal_nan=True, **_):
    """Check that two arrays are equal: shape, dtype and elements, and what was known before."""
    (x, xdtype), (y, ydtype) = computed(a), computed(b)
    if check_dtype:
        assert xdtype == ydtype
    if check_shape:
        assert x.shape == y.shape
    if check_type:
        assert type(x) is type(y)
    if np.ma.isMaskedArray(x) or np.ma.isMaskedArray(y):
        np.testing.assert_array_equal(np.ma.getmaskarray(x), np.ma.getmaskarray(y))
        x, y = np.ma.filled(x, 0), np.ma.filled(y, 0)
    if any(each.dtype.kind in "fc" for each in (x, y)):
        np.testing.assert_allclose(x, y, 1e-5, 1e-8, equal_nan)
    else:
        np.testing.assert_array_equal(x, y)
    return True


def computed(a):
    """Return an array as NumPy's and the dtype that it had, once its shape is known to be that."""
    if not isinstance(a, la.Array | la.ma.MaskedArray):
        a = a if hasattr(a, "dtype") else np.asarray(a)
        return np.asanyarray(a), a.dtype
    known = a.shape, a.chunks
    x = np.asanyarray(a.compute())
    assert len(known[0]) == x.ndim
    for given, sizes, n in zip(*known, x.shape, strict=True):
        assert given in (n, None)
        assert None in sizes or sum(sizes) == n
    assert x.dtype == a.dtype
    return x, a.dtype


@contextmanager
def refused(why, expects, *expected, **options):
    """Be ``pytest.raises`` or ``pytest.warns``, but leave a test out once what it refuses works."""
    works = False
    try:
        with expects(*expected, **options) as found:
            yield found
            works = True
    except pytest.fail.Exception:
        if works:
            pytest.skip(f"dask refuses it: {why}")
        raise


def refuses(why, expects, expected, call):
    """Be ``pytest.raises`` with a function, as `refused` is with a block."""
    with refused(why, expects, expected):
        call()


def same(a, b):
    """Return whether an object is another, or they are equal chunked arrays."""
    return a is b or (isinstance(a, la.Array) and isinstance(b, la.Array) and assert_eq(a, b))


def same_keys(a, b):
    """Tasks are not compared: those of lazyflow have names by number."""
    return True


def allclose(a, b, equal_nan=False, **keywords):
    """Return whether two arrays are nearly equal."""
    return bool(np.allclose(a, b, equal_nan=equal_nan, **keywords))


#: What stands for functions of dask's tests.
STAND_INS = {"assert_eq": assert_eq, "same_keys": same_keys, "allclose": allclose}


#: Our settings by dask's names.
OURS = {"scheduler": "scheduler", "array.chunk-size": "chunk_bytes"}


class Dask:
    """What stands for the module ``dask``: `lazyflow`, and what only dask has."""

    array = la
    compute, persist, visualize = lazyflow.compute, lazyflow.persist, lazyflow.visualize
    delayed = staticmethod(lazyflow.delayed)

    class config:
        """Settings: the scheduler is lazyflow's, all others are dask's."""

        get = staticmethod(dask.config.get)

        @staticmethod
        @contextmanager
        def set(given=None, **keywords):
            given = {**(given or {}), **keywords}
            own = {OURS[name]: given.pop(name) for name in OURS if name in given}
            if "chunk_bytes" in own:
                own["chunk_bytes"] = dask.utils.parse_bytes(own["chunk_bytes"])
            with lazyflow.config.set(**own), dask.config.set(given):
                yield

    def __getattr__(self, name):
        return getattr(dask, name)


class Rewritten(ast.NodeTransformer):
    """A file of tests with its imports changed, and marks on what is left out.

    internal
        Names in the file that are dask's own, by what they are.
    """

    def __init__(self):
        self.internal = {}
        self.test = ""

    def visit_Import(self, node):
        for each in node.names:
            if each.name.split(".")[0] == "dask" and each.name.startswith("dask.array"):
                each.name, each.asname = (
                    ("lazyflow.array", each.asname) if each.asname else (each.name, None)
                )
        if any(each.name.split(".")[0] == "dask" for each in node.names):
            return ast.parse("from dasks_array_tests import Dask; dask = Dask()").body
        return node

    def visit_ImportFrom(self, node):
        if (node.module or "").split(".")[0] not in ("dask", "distributed"):
            return node
        made = []
        for each in node.names:
            called = each.asname or each.name
            made += ast.parse(self._import(node.module, each.name, called)).body
        return made

    def _import(self, module, name, called):
        if name in STAND_INS:
            return f"from dasks_array_tests import {name} as {called}"
        if module == "dask.array.overlap" and hasattr(la.overlap, name):
            return f"from lazyflow.array.overlap import {name} as {called}"
        if module.startswith("dask.array") and name in dir(la) and name != "take":
            return f"from lazyflow.array import {name} as {called}"
        if module == "dask.array" and name in ("shuffle", "stats", "fft", "linalg", "ma"):
            return f"import lazyflow.array; {called} = lazyflow.array.{name}"
        if (module, name) == ("dask.delayed", "delayed"):
            return f"from lazyflow import {name} as {called}"
        if (module, name) == ("dask.delayed", "Delayed"):  # or the pair that tests of stats give
            return (
                "import lazyflow, lazyflow.array; "
                f"{called} = lazyflow.Delayed | lazyflow.array.stats.StatResult"
            )
        if module.startswith(("dask.array.linalg", "dask.array.fft")) and not name.startswith("_"):
            return f"import lazyflow.array; {called} = lazyflow.array.{module.split('.')[2]}.{name}"
        if name not in ("inc", "dec") and (name in NOT_PLAIN or not module.startswith(PLAIN)):
            self.internal[called] = f"{module}.{name}"
        return f"from {module} import {name} as {called}"

    def visit_FunctionDef(self, node):
        if node.name.startswith("test_"):
            self.test = node.name
        return self.generic_visit(node)

    def visit_Compare(self, node):
        self.generic_visit(node)
        if isinstance(node.ops[0], ast.Is) and isinstance(node.comparators[0], ast.Name):
            return _call("same", node.left, node.comparators[0])
        return node

    def visit_Call(self, node):
        self.generic_visit(node)
        if ast.unparse(node.func) in ("pytest.raises", "pytest.warns"):
            why = REFUSED_BY_DASK.get(self.test)
            if ast.unparse(node.args[0]) == "NotImplementedError":
                why = why or "it is not implemented there"
            if why:
                name = "refused" if len(node.args) == 1 else "refuses"
                made = _call(name, ast.Constant(why), node.func, *node.args)
                made.keywords = node.keywords
                return made
        if isinstance(node.func, ast.Attribute) and node.func.attr == "_array_expr_enabled":
            return ast.Constant(value=False)
        return node

    def visit_Attribute(self, node):
        self.generic_visit(node)
        if isinstance(node.value, ast.Attribute) and node.attr in STAND_INS:
            return _call(node.attr).func
        return node


def _call(name, *arguments):
    """Return the expression that calls a function of this file."""
    function = ast.parse(f"__import__('dasks_array_tests').{name}", mode="eval").body
    return ast.Call(function, list(arguments), [])


def internal_of(function, internal):
    """Return what of dask's own a test is about, in words, or None."""
    if function.name in NOT_NUMPYS:
        return NOT_NUMPYS[function.name]
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and node.id in internal:
            return internal[node.id]
        if isinstance(node, ast.Attribute):
            if node.attr in OF_GRAPHS and not (
                isinstance(node.value, ast.Name) and node.value.id in ("lazyflow", "np", "pytest")
            ):
                return f".{node.attr} of arrays"
            if node.attr.startswith("__dask"):
                return f".{node.attr}"
            if isinstance(node.value, ast.Name) and node.value.id == "da" and (
                node.attr.startswith("_") or node.attr in INTERNAL
            ):
                return f"da.{node.attr}"
        if isinstance(node, ast.Call) and len(node.args) + len(node.keywords) > 1 and (
            ast.unparse(node.func) in ("Array", "da.Array")
        ):
            return "arrays made of graphs"
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not) and isinstance(
            node.operand, ast.Call
        ) and getattr(node.operand.func, "id", "") == "same_keys":
            return "names of tasks"
    return None


def rewritten(source):
    """Return the source of a file of tests, changed as the head of this file says."""
    tree = ast.parse(source)
    rewriter = Rewritten()
    tree = rewriter.visit(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            why = internal_of(node, rewriter.internal)
            if why:
                mark = ast.parse("__import__('pytest').mark.skip()", mode="eval").body
                mark.keywords = [ast.keyword("reason", ast.Constant(f"dask's own: {why}"))]
                node.decorator_list.insert(0, mark)
    return ast.unparse(ast.fix_missing_locations(tree))


class Counts:
    """The plugin of pytest that counts what became of the tests, and has dask's one fixture."""

    @pytest.fixture
    def xfail(self):
        return pytest.skip

    def __init__(self):
        self.of_file = {}
        self.left_out = Counter()
        self.failed = []

    def pytest_runtest_logreport(self, report):
        counts = self.of_file.setdefault(Path(report.nodeid.split("::")[0]).stem, Counter())
        if hasattr(report, "wasxfail") or report.skipped:
            if hasattr(report, "wasxfail"):
                why = "dask expects it to fail"
            else:
                why = report.longrepr[2].removeprefix("Skipped: ")
            if (report.when != "teardown" and report.when == "setup") or report.when == "call":
                counts["left out"] += 1
                self.left_out[why] += 1
        elif report.failed and report.when != "teardown":
            counts["failed"] += 1
            message = str(getattr(report.longrepr, "reprcrash", report.longrepr))
            self.failed.append((report.nodeid, message.splitlines()[0]))
        elif report.passed and report.when == "call":
            counts["passed"] += 1

    def pytest_collectreport(self, report):
        if report.failed:
            self.failed.append((report.nodeid, str(report.longrepr)[-300:]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bound", type=float, default=0.85, help="share that must pass")
    parser.add_argument("--failures", action="store_true", help="print each failure")
    parser.add_argument("files", nargs="*", help="files of dask's, without .py; else all")
    given = parser.parse_args()
    sys.modules["dasks_array_tests"] = sys.modules["__main__"]
    counts = Counts()
    with tempfile.TemporaryDirectory() as folder:
        for path in sorted(TESTS.glob("test_*.py")):
            if path.stem in FILES or "cupy" in path.stem:
                continue
            if not given.files or path.stem in given.files:
                (Path(folder) / path.name).write_text(rewritten(path.read_text()))
        arguments = [folder, "-q", "-p", "no:cacheprovider", "--rootdir", folder, "--timeout", "60"]
        arguments += ["-c", "/dev/null", "-o", "xfail_strict=false", "--no-header", "--tb=short"]
        arguments += ["-p", "no:xdist", "-W", "ignore", "--import-mode=importlib", "--no-summary"]
        arguments += ["--continue-on-collection-errors"]
        pytest.main(arguments, plugins=[counts])
    report(counts, given.failures)
    total = sum(counts.of_file.values(), Counter())
    share = total["passed"] / max(total["passed"] + total["failed"], 1)
    print(f"{share:.1%} passed; at least {given.bound:.0%} must")
    return int(share < given.bound)


def report(counts, failures):
    """Print counts by file, and what was left out by reason."""
    for name, why in FILES.items():
        print(f"left out: {name}: {why}")
    for why, n in counts.left_out.most_common():
        print(f"{n:5} left out: {why}")
    if failures:
        for nodeid, message in counts.failed:
            print(nodeid, message, sep="\n    ")
    for name, n in counts.of_file.items():
        print(f"{name:24}{n['passed']:6} passed {n['failed']:5} failed {n['left out']:5} left out")


if __name__ == "__main__":
    sys.exit(main())
