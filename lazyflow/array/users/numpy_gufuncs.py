"""Generalised ufuncs of NumPy and of others, called on arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from lazyflow.array.core import as_node
from lazyflow.array.dispatch import MODULE_OF, functions
from lazyflow.array.functions.arguments import assign_out
from lazyflow.array.nodes.elementwise import one_loop, owner, takes_results
from lazyflow.array.nodes.task_parts import named
from lazyflow.array.users.gufuncs import apply_gufunc


def call_gufunc(ufunc: np.ufunc, inputs: tuple[Any, ...], out: Any = None, **kwargs: Any) -> Any:
    """Return the result of a generalised ufunc, by our function of its name if there is one.

    Otherwise the ufunc sees blocks in which its core dimensions are whole.
    """
    name = ufunc.__name__
    if name in MODULE_OF and getattr(np, name, None) is ufunc:
        found = functions[name]
        return found(*inputs, **kwargs) if out is None else found(*inputs, out=out, **kwargs)
    func = owner(ufunc)
    signature: Any = ufunc.signature
    targets = out if isinstance(out, tuple) else (out,) * ufunc.nout
    if takes_results(func):
        types = tuple([as_node(x).dtype for x in (*inputs, *targets)])
        func = named(func.__name__, one_loop, func, types)
        kwargs["output_dtypes"] = list(types[len(inputs):])
    made = apply_gufunc(func, signature, *inputs, allow_rechunk=True, **kwargs)
    results = made if isinstance(made, tuple) else (made,)
    given = [
        one if target is None else assign_out(target, one.expr)
        for one, target in zip(results, targets, strict=True)
    ]
    return given[0] if len(given) == 1 else tuple(given)
