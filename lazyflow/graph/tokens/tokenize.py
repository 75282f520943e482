"""Names made from content: equal for equal content, on any machine and in any process.

``tokenize`` makes the names of pure tasks. Guarantees:

- the token depends on type (``1``, ``True``, ``1.0``, ``"1"`` and ``np.int64(1)`` all differ), the
  sign of zero, dtype and shape. It does not depend on sharing (``[x, x]`` and ``[x, copy(x)]``), an
  array's memory order, or the order of dicts and sets; the order of an `OrderedDict` counts;
- the token is of the current content: an object that changes later has another token;
- an object without comparable content (a lock, generator, open file, bare ``object()``) gets a
  unique token, or with ``strict=True`` raises `TypeError`;
- references outside a function's code are not followed: modules count by name, and an importable
  function counts without the functions that it calls.
"""

from __future__ import annotations

from collections.abc import Callable
from os import urandom
from typing import Any

from lazyflow.graph.tokens.contents import contents, encoded, sequence
from lazyflow.graph.tokens.digests import MerkleNode, NoContent, hashed, merkle, type_name

_LENGTH = 32  # hex digits: 128 bits


def tokenize(*args: Any, strict: bool = False, **kwargs: Any) -> str:
    """Return a hash of the content of any objects, as 32 hex digits.

    A class declares the content of its instances by ``__lazyflow_tokenize__(self)``, which may
    return any object, or by ``__dask_tokenize__(self)``; the result is hashed with the class.

    Raises
    ------
    TypeError
        With ``strict=True``, for an object without content; the message has its type and path.

    Examples
    --------
    >>> tokenize([1, 2], {"a": 3}) == tokenize([1, 2], {"a": 3})
    True
    >>> tokenize([1, 2]) == tokenize((1, 2))
    False
    >>> tokenize({"step": (x for x in "ab")}, strict=True)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    TypeError: args[0]['step'] is a generator, whose content can't be read for a token (...
    """
    names = sorted(kwargs)
    values = [*args, *[kwargs[name] for name in names]]
    labels = [*[f"args[{i}]" for i in range(len(args))], *[f"kwargs[{n!r}]" for n in names]]
    digest = sequence(b"call\0" + encoded((len(args), names)), values, labels, "{}")
    if isinstance(digest, MerkleNode):
        digest = merkle(digest, contents, _refuse if strict else _unique)
    return digest.hex()[:_LENGTH]


def unique_token() -> str:
    """Return a token that nothing else has or will have.

    >>> unique_token() == unique_token()
    False
    """
    return urandom(_LENGTH // 2).hex()


def _unique(obj: Any, error: NoContent, path: Callable[[], str]) -> bytes:
    # Not the id: it is given to the next object when this one dies. Nor a counter: forks share it.
    return hashed(b"unique\0", urandom(32))


def _refuse(obj: Any, error: NoContent, path: Callable[[], str]) -> bytes:
    cause = error.__cause__
    why = str(error) if cause is None else f"{type(cause).__name__}: {cause}"
    name = type_name(type(obj))
    raise TypeError(
        f"{path()} is a {name}, whose content can't be read for a token ({why}). Give the class "
        "that holds it a method __lazyflow_tokenize__(self) that returns what results depend on, "
        "or leave strict=True out to get a unique token."
    ) from cause
