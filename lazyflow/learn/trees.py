"""Arrays in dicts and lists, to any depth, as weights and gradients are.

Errors name the place of an array in its tree, as ``weights['coef_']``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

__all__ = [
    "LABELS", "are_labels", "array_of", "as_dtype", "check_changeable", "fitted_to", "leaves",
    "mapped", "place", "replace",
]

LABELS = "['classes_']"  # in the places of labels, which have no mean

_NUMBERS = (int, float)


def array_of(value: Any, where: str) -> Any:
    """Return a copy as a NumPy array; a plain number stays one.

    Examples
    --------
    >>> array_of([1, 2], "weights['coef_']"), array_of(0.5, "weights['rate_']")
    (array([1, 2]), 0.5)
    """
    if type(value) in _NUMBERS:
        return value
    try:
        if hasattr(value, "detach"):  # a tensor, maybe on another device, maybe with a history
            value = value.detach().cpu()
            is_bfloat16 = str(getattr(value, "dtype", "")) == "torch.bfloat16"
            value = _of_bfloat16(value) if is_bfloat16 else value.numpy()
        array = np.array(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(
            f"{where} ({type(value).__name__}) does not become an array: {error}. Convert it "
            "first, for example model.float() for types that NumPy has not"
        ) from error
    if array.dtype.kind == "O" and not are_labels(array):
        raise ValueError(f"{where} is {type(value).__name__}, not an array of numbers or labels")
    return array


def _of_bfloat16(tensor: Any) -> Any:
    """Return a tensor of PyTorch's bfloat16, which NumPy has by ml_dtypes alone."""
    try:
        import ml_dtypes
    except ModuleNotFoundError:
        raise TypeError("NumPy knows bfloat16 by ml_dtypes only: pip install ml_dtypes") from None
    return tensor.float().numpy().astype(ml_dtypes.bfloat16)


def are_labels(array: np.ndarray) -> bool:
    """Whether an array of objects has labels alone: texts and numbers, as pandas keeps them.

    Examples
    --------
    >>> are_labels(np.array(["a", 1], object)), are_labels(np.array([print, None]))
    (True, False)
    """
    return array.size > 0 and all(
        isinstance(label, str | bytes | int | float | np.generic) for label in array.ravel()
    )


def fitted_to(where: str, own: Any, new: Any) -> Any:
    """Return a new value in the dtype of the old one, whose shape it must have.

    Examples
    --------
    >>> fitted_to("weights['coef_']", np.zeros(2), np.array([1, 2]))
    array([1., 2.])
    """
    array = np.asarray(array_of(new, where))
    if array.shape != np.shape(own):
        raise ValueError(
            f"{where} has shape {array.shape}, and the model's has {np.shape(own)}: the weights "
            "are of a model of another form"
        )
    if type(own) in _NUMBERS:
        return type(own)(array)
    if LABELS in where or (own.dtype.kind in "US" and array.dtype.kind in "USO"):
        return array  # labels may be longer, and of another kind
    return as_dtype(array, own.dtype, where)


def as_dtype(array: np.ndarray, dtype: np.dtype[Any], where: str) -> np.ndarray:
    """Return numbers in another dtype; only digits of floats may be lost.

    Examples
    --------
    >>> as_dtype(np.array([1.0, 2.0]), np.dtype(int), "weights['steps']")
    array([1, 2])
    >>> as_dtype(np.array([1.5]), np.dtype(int), "weights['steps']")
    Traceback (most recent call last):
    ...
    ValueError: weights['steps'] is float64, and the model's is int64, which can't hold 1.5
    """
    kinds = array.dtype.kind + dtype.kind
    if np.can_cast(array.dtype, dtype, "same_kind") or "V" in kinds:
        return array.astype(dtype, copy=False)
    lost = array.ravel()
    if not set(kinds) & set("USOmM"):
        with np.errstate(invalid="ignore"):
            cast = (array if dtype.kind == "c" else array.real).astype(dtype)
        lost = array[cast != array]
        if not lost.size:
            return cast
    if not lost.size:
        return array.astype(dtype)
    raise ValueError(
        f"{where} is {array.dtype}, and the model's is {dtype}, which can't hold "
        f"{lost.tolist()[0]!r}"
    )


def place(where: str, at: Any) -> str:
    """Return the name of an item in messages.

    Examples
    --------
    >>> place("weights", "coef_")
    "weights['coef_']"
    """
    return f"{where}[{at!r}]"


def leaves(tree: Any, where: str) -> Iterator[tuple[str, Any]]:
    """Yield the place and the value of everything in a tree that is no container.

    Examples
    --------
    >>> list(leaves({"a": [1, 2]}, "tree"))
    [("tree['a'][0]", 1), ("tree['a'][1]", 2)]
    """
    if isinstance(tree, Mapping):
        for name, value in tree.items():
            yield from leaves(value, place(where, name))
    elif isinstance(tree, list | tuple):
        for k, value in enumerate(tree):
            yield from leaves(value, place(where, k))
    else:
        yield where, tree


def mapped(function: Callable[..., Any], trees: list[Any], where: str) -> Any:
    """Call a function with the values at each place of several trees; return a tree of the results.

    Examples
    --------
    >>> mapped(lambda where, a, b: a + b, [{"x": [1, 2]}, {"x": [10, 20]}], "trees")
    {'x': [11, 22]}
    """
    first = trees[0]
    if isinstance(first, Mapping):
        _check_names(first, trees, where)
        return {
            name: mapped(function, [t[name] for t in trees], place(where, name))
            for name in first
        }
    if isinstance(first, list | tuple):
        for k, tree in enumerate(trees):
            if not isinstance(tree, list | tuple) or len(tree) != len(first):
                theirs = len(tree) if isinstance(tree, list | tuple) else type(tree).__name__
                raise ValueError(
                    f"{where} has {len(first)} arrays in one and {theirs} in another (entry {k}); "
                    "all must have the form that get_weights(model) returns"
                )
        made = [
            mapped(function, list(column), place(where, k))
            for k, column in enumerate(zip(*trees, strict=True))
        ]
        return made if type(first) is list else tuple(made)
    for tree in trees:
        if isinstance(tree, Mapping | list | tuple):
            raise ValueError(
                f"{where} is an array in one and a {type(tree).__name__} in another; all must "
                "have the form that get_weights(model) returns"
            )
    return function(where, *trees)


def _check_names(first: Mapping[Any, Any], trees: list[Any], where: str) -> None:
    for tree in trees:
        if not isinstance(tree, Mapping):
            raise ValueError(
                f"{where} is a dict by name in one and {type(tree).__name__} in another; all must "
                "have the form that get_weights(model) returns"
            )
        missing = [name for name in first if name not in tree]
        strange = [name for name in tree if name not in first]
        if missing or strange:
            words = [f"{names} {problem}" for names, problem in (
                (_listed(missing), "missing"), (_listed(strange), "not known"),
            ) if names]
            raise ValueError(
                f"the names in {where} are not the same: {', '.join(words)}. get_weights(model) "
                "shows those of a model"
            )


def _listed(names: list[Any]) -> str:
    text = ", ".join(map(repr, names[:5]))
    return f"{text} and {len(names) - 5} more" if len(names) > 5 else text


def check_changeable(model: Any, where: str) -> None:
    """Refuse containers that `replace` could not change, before it changes any.

    Examples
    --------
    >>> check_changeable({"x": ([1, 2], [3])}, "weights")
    >>> check_changeable({"x": [1], "y": (2,)}, "weights")
    Traceback (most recent call last):
    ...
    TypeError: weights['y'] is a tuple, which can't be changed: keep the arrays in a list or a dict
    """
    for at, value in model.items() if isinstance(model, Mapping) else enumerate(model):
        if isinstance(value, Mapping | list | tuple):
            check_changeable(value, place(where, at))
        elif not hasattr(model, "__setitem__"):
            raise TypeError(
                f"{where} is a {type(model).__name__}, which can't be changed: keep the arrays in "
                "a list or a dict"
            )


def replace(model: Any, new: Any) -> None:
    """Put new arrays in the places of the old ones, in the user's own containers.

    Examples
    --------
    >>> model = {"x": [1, 2]}
    >>> replace(model, {"x": [10, 20]})
    >>> model
    {'x': [10, 20]}
    """
    items = list(new.items() if isinstance(new, Mapping) else enumerate(new))
    for at, value in items:
        if isinstance(value, Mapping | list | tuple):
            replace(model[at], value)
        else:
            model[at] = value
