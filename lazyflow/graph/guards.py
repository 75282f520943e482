"""Views of arrays that can't be written through: tasks get them of arrays that others read, too."""

from __future__ import annotations

import sys
from typing import Any

from lazyflow.graph.kinds import ARRAY, kinds


def guarded(array: Any) -> Any:
    """Return a view of a numpy array that can't be written through, nor made writable again.

    numpy lets a view be made writable while an array below it is. Between this view and the
    array is a read-only buffer, which it can't look through. Of arrays that are no plain ones
    (subclasses, and those that hold objects) it is only marked as read-only.

    >>> import numpy
    >>> view = guarded(numpy.arange(6.0).reshape(2, 3)[:, ::-2])
    >>> view.tolist()
    [[2.0, 0.0], [5.0, 3.0]]
    >>> view.setflags(write=True)
    Traceback (most recent call last):
    ...
    ValueError: cannot set WRITEABLE flag to True of this array
    """
    if type(array) is sys.modules["numpy"].ndarray and array.nbytes and not array.dtype.hasobject:
        try:
            return _behind_a_buffer(sys.modules["numpy"], array)
        except (ValueError, TypeError, BufferError):  # texts of any length, and other new types
            pass
    view = array.view()
    view.flags.writeable = False
    return view


def _behind_a_buffer(numpy: Any, array: Any) -> Any:
    flags = array.flags
    if flags.f_contiguous and not flags.c_contiguous:
        return _behind_a_buffer(numpy, array.T).T
    if not flags.c_contiguous:
        owner = array.base
        if type(owner) is not numpy.ndarray or not owner.flags.forc:
            raise ValueError("its memory is in pieces")
        start = _address(array) - _address(owner)
        below = _behind_a_buffer(numpy, owner.T if owner.flags.fnc else owner)
        return numpy.ndarray(array.shape, array.dtype, below, start, array.strides)
    try:
        memory = array.data
    except (ValueError, BufferError):  # a type that buffers don't have, as times
        memory = array.view(f"V{array.itemsize}").data
    return numpy.frombuffer(memory.toreadonly(), array.dtype).reshape(array.shape)


def _address(array: Any) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


def is_open(array: Any) -> bool:
    """Tell whether an array can be written to, or be made so.

    >>> import numpy
    >>> x = numpy.zeros(2)
    >>> is_open(x), is_open(guarded(x))
    (True, False)
    """
    below = array
    while kinds[type(below)] == ARRAY:
        if below.flags.writeable:
            return True
        below = below.base
    if below is None:
        return array.base is None  # it owns its memory, and decides itself
    try:
        return not memoryview(below).readonly
    except TypeError:  # it exposes no buffer, so numpy can't make the view writable
        return False


def base_of(array: Any) -> Any:
    """Return the owner of the memory of an array or of a buffer below one; None: itself."""
    if type(array) is memoryview:
        return array.obj
    return getattr(array, "base", None)
