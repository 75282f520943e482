"""Every public name has an example, which `--doctest-modules` runs."""

import inspect
from collections.abc import Callable
from importlib import import_module
from typing import Literal

import pytest

import lazyflow
import lazyflow.array as la
from lazyflow import learn, weights
from lazyflow.api.actors import Actor, ActorClass
from lazyflow.api.tracing import Trace
from lazyflow.api.worker_states import WorkerState
from lazyflow.schedulers.core.base import Observer

#: Names of types, which have no docstring of their own.
ALIASES = type(Literal[0]), type(Callable[[], None])


def has_example(obj):
    return ">>>" in (inspect.getdoc(obj) or "")


def methods_of(cls):
    """Yield the public methods and properties that lazyflow defines for a class.

    Without those that schedulers call, and those that only refuse.
    """
    for name in dir(cls):
        attribute = inspect.getattr_static(cls, name)
        function = getattr(attribute, "fget", getattr(attribute, "__func__", attribute))
        written_here = str(getattr(function, "__module__", None)).startswith("lazyflow")
        refuses = getattr(function, "__name__", "").startswith("_")
        is_hook = issubclass(cls, Observer) and hasattr(Observer, name)
        if written_here and not (name.startswith("_") or refuses or is_hook):
            yield f"{cls.__name__}.{name}", attribute


def without_example(objects):
    found = set()
    for name, obj in objects.items():
        if not callable(obj) or isinstance(obj, ALIASES):
            continue
        if not has_example(obj):
            found.add(name)
        if inspect.isclass(obj) and str(obj.__module__).startswith("lazyflow"):
            found |= {each for each, method in methods_of(obj) if not has_example(method)}
    return found


def public(module):
    return {name: getattr(module, name) for name in module.__all__}


def test_every_name_of_lazyflow_has_an_example():
    assert without_example(public(lazyflow)) == set()


def test_what_they_return_has_examples():
    classes = [Actor, ActorClass, Trace, WorkerState]
    assert without_example({cls.__name__: cls for cls in classes}) == set()


def test_weights_have_examples():
    assert without_example(public(weights)) == set()


@pytest.mark.parametrize("name", [name for name in learn.__all__ if name != "examples"])
def test_solvers_have_examples(name):
    module = import_module(f"lazyflow.learn.{name}")
    assert without_example(public(module)) == set()


#: Names of `lazyflow.array` whose example is still to be written: it only gets shorter.
MISSING_IN_ARRAYS = """
Array absolute acos acosh add allclose amax amin angle append arange arccos arccosh arcsin
arcsinh arctan arctan2 arctanh argmax argpartition argsort argtopk argwhere around array
array_equal array_equiv array_split asanyarray asarray asin asinh astype atan atan2 atanh
atleast_1d atleast_2d atleast_3d average bincount bitwise_and bitwise_count bitwise_invert
bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor broadcast_arrays
broadcast_to can_cast cbrt ceil choose clip column_stack common_type compress concat conj
conjugate copy copysign corrcoef cos cosh count_nonzero cross cumprod cumulative_prod
cumulative_sum deg2rad degrees delete diag diagonal digitize divide dot dsplit dstack
ediff1d empty empty_like equal exp exp2 expand_dims expm1 extract eye fabs fix flatnonzero
flip fliplr flipud float_power floor floor_divide fmax fmin fmod frexp from_array
from_delayed from_zarr full full_like gcd gradient greater greater_equal heaviside
histogram2d histogram_bin_edges histogramdd hsplit hstack hypot i0 identity imag indices
inner insert interp invert isclose iscomplex iscomplexobj isfinite isin isinf isnan isnat
isneginf isposinf isreal isrealobj lcm ldexp left_shift less less_equal linspace log log10
log1p log2 logaddexp logaddexp2 logical_and logical_not logical_or logical_xor logspace
matrix_transpose matvec maximum mean meshgrid minimum mod modf moveaxis multiply nan_to_num
nanargmax nanargmin nancumprod nancumsum nanmax nanmean nanmedian nanmin nanpercentile
nanprod nanquantile nanstd nansum nanvar ndim negative nextafter nonzero not_equal notnull
ones ones_like outer partition percentile permute_dims positive power prod ptp quantile
rad2deg radians ravel ravel_multi_index real reciprocal remainder repeat right_shift rint
roll rollaxis rot90 searchsorted select shape sign signbit sin sinc sinh size sort spacing
split sqrt square squeeze stack std subtract swapaxes take take_along_axis tan tanh
tensordot tile to_delayed to_zarr trace transpose trapezoid tri tril tril_indices
tril_indices_from trim_zeros triu triu_indices triu_indices_from true_divide trunc union1d
unique unravel_index var vdot vecdot vecmat vsplit vstack wait_compiled where zeros
zeros_like
"""


def test_every_name_of_arrays_has_an_example():
    missing = {
        name for name, obj in public(la).items()
        if str(getattr(obj, "__module__", None)).startswith("lazyflow") and not has_example(obj)
    }
    assert missing <= set(MISSING_IN_ARRAYS.split())
