"""Signatures of generalised ufuncs, and the axes that are their core dimensions."""

from __future__ import annotations

import operator
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from numpy.lib.array_utils import normalize_axis_tuple

_NAME = r"[^\W\d]\w*|\d+"
_CORE = rf"\(\s*(?:(?:{_NAME})\s*(?:,\s*(?:{_NAME})\s*)*,?\s*)?\)"
_SIDE = rf"{_CORE}(?:\s*,\s*{_CORE})*"
_WHOLE = re.compile(rf"\s*(?:{_SIDE})?\s*->\s*{_SIDE}\s*$")

Core = tuple[str, ...]


class Signature(NamedTuple):
    """The core dimensions of inputs and results, by name."""

    inputs: tuple[Core, ...]
    outputs: tuple[Core, ...]


def parse(signature: str) -> Signature:
    """Return the core dimensions of a signature.

    >>> parse("(i,j),(j)->(i),()")
    Signature(inputs=(('i', 'j'), ('j',)), outputs=(('i',), ()))

    Raises
    ------
    ValueError
        The text is no signature.
    """
    if not isinstance(signature, str) or not _WHOLE.match(signature):
        raise ValueError(
            f"Not a valid gufunc signature: {signature!r}. One is written like "
            "'(i,j),(j,k)->(i,k)': names of core dimensions for each input and result"
        )
    inputs, outputs = signature.split("->")
    return Signature(_side(inputs), _side(outputs))


def _side(text: str) -> tuple[Core, ...]:
    return tuple([
        tuple(re.findall(rf"{_NAME}", each)) for each in re.findall(_CORE, text)
    ])


def core_axes(
    signature: Signature, axes: Any, axis: Any, keepdims: bool, ndims: Sequence[int]
) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
    """Return the core axes of inputs and of results that `axes` or `axis` name, or the last axes.

    Raises
    ------
    ValueError
        The axes don't fit the signature, or an input has too few.
    """
    ins, outs = signature
    if axes is not None and axis is not None:
        raise ValueError("Only one of `axis` or `axes` keyword arguments should be given")
    if keepdims and (len(set(map(len, ins))) > 1 or any(outs)):
        raise ValueError(
            "`keepdims` needs inputs with equal numbers of core dimensions, and results without"
        )
    kept = [ins[0] if keepdims else each for each in outs]
    if axis is not None:
        axis = operator.index(axis)
        names = {name for each in ins for name in each}
        if len(names) != 1 or any(len(each) > 1 for each in (*ins, *outs)):
            raise ValueError("`axis` needs one core dimension, shared by all; use `axes`")
        found = [(axis,) * len(each) for each in (*ins, *kept)]
    elif axes is not None:
        found = _given(axes, ins, kept, outs)
    else:
        found = [tuple(range(-len(each), 0)) for each in (*ins, *kept)]
    for each, core, ndim in zip(found, ins, ndims, strict=False):
        if ndim < len(core):
            raise ValueError(
                f"an input has {ndim} axes, fewer than its core dimensions ({','.join(core)})"
            )
        if len(set(normalize_axis_tuple(each, ndim))) != len(each):
            raise ValueError("Repeated axis in `axes`")
    return found[: len(ins)], found[len(ins):]


def _given(axes: Any, ins: Any, kept: Any, outs: Any) -> list[tuple[int, ...]]:
    if not isinstance(axes, list | tuple):
        raise ValueError("`axes` has to be of type list")
    found = [tuple(each) if isinstance(each, tuple | list) else (each,) for each in axes]
    if len(found) == len(ins) and not any(outs):
        found += [found[0] if any(kept) else ()] * len(kept)
    wanted = [*ins, *kept]
    if len(found) != len(wanted):
        raise ValueError(
            f"`axes` has to have {len(wanted)} entries, for all inputs and results; got "
            f"{len(found)}"
        )
    for each, core in zip(found, wanted, strict=True):
        if len(each) != len(core):
            raise ValueError(
                f"`axes` entry {each} does not fit the core dimensions ({','.join(core)})"
            )
    return found
