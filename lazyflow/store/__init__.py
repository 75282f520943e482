"""Where values are while a run needs them, and how they are handed over.

Whose a value is, on every scheduler:

- Arrays reach tasks as read-only views; lists, dicts, sets and DataFrames as private shallow
  copies; an iterator is read once, and every reader gets an iterator of its own.
- A function that edits its arguments says ``delayed(f, mutates=True)`` and gets private ones. Not
  covered are arrays and lists inside other objects, classes of the user's, scikit-learn estimators
  and sparse matrices: two tasks that edit the same one see each other's edits, so
  ``delayed(model.fit)`` three times fits one model three times; ``delayed(clone)(model)`` is the
  way. ``config.set(check_mutation=True)`` finds such edits.
- What the caller gets (by ``compute``, ``result()``, ``await``, calls of actors) is the caller's to
  change: it is copied where something else holds it, also arrays, sparse matrices, bytearrays and
  frames inside lists, dicts, tuples and dataclasses, but not inside objects of the user's classes.
- An array that is passed is not copied, and must not change before the graph has run.
"""
