"""Lines with two faults, of which NumPy and lazyflow may each tell another."""

import ast

import numpy as np

from array_programs.program import numpy_side, outcome


def tells_one_of_two(different):
    """Tell whether what is raised here NumPy raises, too, for a part of the line."""
    if different.why != "error":
        return False
    return any(
        (isinstance(each, Exception) and isinstance(different.mine, type(each)))
        or isinstance(each, type(different.mine))
        for each in _parts(different)
    )


def _parts(different):
    """Return what NumPy gives or raises for the parts of a line."""
    names = {**numpy_side().names, **different.before}
    arrays = [each for each in different.before.values() if isinstance(each, np.ndarray)]
    if different.line.how != "changes":
        found = [outcome(lambda: np.result_type(*arrays))]  # that they have a type in common
        if "xp.insert(" in different.line.code:
            call = ast.parse(different.line.code, mode="eval").body
            array, _, value = map(ast.unparse, call.args)
            found.append(outcome(lambda: eval(f"xp.insert({array}, 0, {value})", dict(names))))
        return found
    target, _, value = different.line.code.partition(" = ")
    changed = different.before[different.line.changed]
    taken = outcome(lambda: eval(target, dict(names)))
    given = outcome(lambda: eval(value, dict(names)))
    return [
        taken,
        outcome(lambda: _converted(given, changed.dtype)),
        outcome(lambda: np.broadcast_to(given, np.shape(taken))),
        outcome(lambda: _as_element(given, taken, changed.dtype)),
    ]


def _converted(value, dtype):
    made = np.empty(np.shape(value), dtype)
    made[...] = value
    return made


def _as_element(value, taken, dtype):
    """Put a value to one place, if one is what the line is for."""
    if np.ndim(taken) == 0:
        np.empty(1, dtype)[0] = value
