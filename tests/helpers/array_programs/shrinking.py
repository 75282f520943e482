"""Making a program that differs as small as it goes."""

from dataclasses import replace

from array_programs.program import Different, Program, run

_PLAIN = {"scheduler": "sync", "kernels": "numpy", "array_fusion": True}


def shrunk(different: Different) -> Different:
    """Return the same class of difference in the same step, of a program as short as was found."""
    found = _again(different, different.program.lines[:_place(different) + 1], None) or different
    for name, value in _PLAIN.items():
        settings = {**found.program.settings, name: value}
        found = _again(found, found.program.lines, settings) or found
    at = len(found.program.lines) - 2
    while at >= 0:
        lines = found.program.lines
        if at < len(lines) - 1:
            found = _again(found, _without(lines, at), None) or found
        at -= 1
    return found


def _place(different):
    return different.program.lines.index(different.line)


def _without(lines, at):
    """Return the lines without one, and without what uses what it makes."""
    gone = {lines[at].name} - {None}
    left = list(lines[:at])
    for line in lines[at + 1:]:
        if line.uses & gone:
            gone.add(line.name)
        else:
            left.append(line)
    return tuple(left)


def _again(different, lines, settings):
    if different.line not in lines:
        return None
    program = replace(
        different.program, lines=tuple(lines), settings=settings or different.program.settings
    )
    found, _ = run(Program(program.seed, program.lines, program.settings))
    if found is None or (found.why, found.line) != (different.why, different.line):
        return None
    return found
