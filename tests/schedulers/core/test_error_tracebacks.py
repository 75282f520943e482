"""Tracebacks that cross processes: exact places, the user's frames, and not too many of them."""

import pathlib
import sys
import textwrap
import traceback
import types
from typing import Any

import pytest
from error_tools import in_child, raised, there_and_back

from lazyflow.schedulers import executor
from lazyflow.schedulers.core.errors.records import frames_of, traceback_from


def test_places_are_exact() -> None:
    def fails(n: int) -> Any:
        if n:
            return [
                len("as far as this"), 1 + fails(
                    n - 1
                ),
            ]
        return (lambda: 1 / n)()

    with pytest.raises(ZeroDivisionError) as caught:
        fails(3)
    trace = caught.value.__traceback__
    made = traceback_from(frames_of(trace))
    assert traceback.format_tb(made) == traceback.format_tb(trace)
    assert made is not None
    places = [list(t.tb_frame.f_code.co_positions())[t.tb_lasti // 2] for t in walk(made)]
    assert places == [list(t.tb_frame.f_code.co_positions())[t.tb_lasti // 2] for t in walk(trace)]
    frame = made.tb_frame
    assert (frame.f_globals["__name__"], frame.f_globals["__file__"]) == (__name__, __file__)
    assert frame.f_code.co_qualname == "test_places_are_exact"
    if sys.version_info[:2] != (3, 12):  # there it refers to what runs when its generator ends
        assert frame.f_back is None  # it keeps nothing of the caller


def walk(trace: Any) -> Any:
    while trace is not None:
        yield trace
        trace = trace.tb_next


def test_code_without_places() -> None:
    code = compile("\n\nraise ValueError", "nowhere.py", "exec")
    for linetable, line in ((code.co_linetable, 3), (b"", None)):
        try:
            exec(code.replace(co_linetable=linetable))
        except ValueError as error:
            made = traceback.extract_tb(there_and_back(error).__traceback__)[-1]
            assert (made.filename, made.lineno or None) == ("nowhere.py", line)


def test_places_that_run_backwards() -> None:
    code = compile("raise ValueError", "nowhere.py", "exec")
    entry = bytes([0xF7, 0, 0, 10, 2])  # 8 units of code: this line, from column 9 to column 1
    code = code.replace(co_linetable=entry * (len(code.co_code) // 16 + 1))
    assert (1, 1, 9, 1) in code.co_positions()
    with pytest.raises(ValueError) as caught:
        exec(code)
    last = traceback.extract_tb(there_and_back(caught.value).__traceback__)[-1]
    assert (last.filename, last.lineno) == ("nowhere.py", 1)


@pytest.mark.parametrize("line", [7, 1_000_000, 0, -5])
def test_lines_given_by_hand(line: int) -> None:
    error = raised(ValueError())
    trace = error.__traceback__
    assert trace is not None
    error.__traceback__ = types.TracebackType(None, trace.tb_frame, trace.tb_lasti, line)
    again = there_and_back(error).__traceback__
    assert [f.lineno for f in traceback.extract_tb(again)] == [max(line, 0)]


def test_a_name_of_a_file_that_can_not_be() -> None:
    code = compile("raise ValueError", "x", "exec").replace(co_filename="a\0b")
    with pytest.raises(ValueError) as caught:
        exec(code)
    last = traceback.extract_tb(there_and_back(caught.value).__traceback__)[-1]
    assert last.filename == "a\\0b"


def test_both_ends_of_a_long_traceback_are_kept() -> None:
    def deeper(n: int) -> None:
        deeper(n - 1) if n else last()

    def last() -> None:
        raise ValueError

    with pytest.raises(ValueError) as caught:
        deeper(200)
    names = [f.name for f in traceback.extract_tb(there_and_back(caught.value).__traceback__)]
    here = "test_both_ends_of_a_long_traceback_are_kept"
    assert names == [here, *["deeper"] * 49, "...", *["deeper"] * 49, "last"]


def test_our_own_frames_are_left_out() -> None:
    def task() -> None:
        raise ValueError

    with pytest.raises(ValueError) as caught:
        executor._Portable(task, [], {}, None)()
    error = caught.value
    assert error.__traceback__ is not None
    error.__traceback__ = error.__traceback__.tb_next
    assert [f.name for f in traceback.extract_tb(error.__traceback__)] == ["__call__", "task"]
    assert [f.name for f in traceback.extract_tb(there_and_back(error).__traceback__)] == ["task"]


JOB = """
def outer(n):
    return [inner(x) for x in range(n)]

def inner(x):
    try:
        return {}[x]
    except KeyError as error:
        error.add_note("a note")
        raise ExceptionGroup(
            "both", [ValueError(x), *caught(x)]
        ) from error

def caught(x):
    try:
        return 1 / (x + 0)
    except ZeroDivisionError as error:
        return [error]
"""


def test_the_interpreter_prints_it_as_the_first_one(tmp_path: pathlib.Path) -> None:
    """Made in one process, uncaught in another: the same lines, source and marks."""
    (tmp_path / "job.py").write_text(JOB)
    (tmp_path / "native.py").write_text("import job\njob.outer(3)\n")
    (tmp_path / "worker.py").write_text(textwrap.dedent("""
        import job, marshal, sys
        from lazyflow.schedulers.core.errors.records import record
        try:
            job.outer(3)
        except BaseException as error:
            sys.stdout.buffer.write(marshal.dumps(record(error)))
    """))
    (tmp_path / "caller.py").write_text(textwrap.dedent("""
        import marshal, sys
        from lazyflow.schedulers.core.errors.records import rebuilt
        raise rebuilt(marshal.load(open(sys.argv[1], "rb")))
    """))
    native = in_child(str(tmp_path / "native.py")).stderr.decode()
    worker = in_child(str(tmp_path / "worker.py"))
    assert worker.stderr == b""
    (tmp_path / "record").write_bytes(worker.stdout)
    found = in_child(str(tmp_path / "caller.py"), str(tmp_path / "record")).stderr.decode()
    assert printed(found) == printed(native)
    assert f'File "{tmp_path / "job.py"}", line 10, in inner\n' in found
    assert 'raise ExceptionGroup(\n' in found
    assert "| ValueError: 0" in found
    assert "{}[x]" in found


def printed(text: str) -> list[str]:
    """Return what stands in a printed traceback, less the frames that lead to the job."""
    lines = text.splitlines()
    starts = [i for i, line in enumerate(lines) if "File " in line]
    ends = [*starts[1:], len(lines)]
    drop = {
        k
        for i, end in zip(starts, ends, strict=True)
        if "job.py" not in lines[i]
        for k in range(i, end)
    }
    return [line for i, line in enumerate(lines) if i not in drop]


SCRIPT = """
import cloudpickle, marshal, subprocess, sys
from lazyflow.schedulers.core.errors.records import rebuilt

class Mine(Exception):
    def __init__(self, a, b):
        super().__init__(f"{a} {b}")

def task():
    raise Mine(1, 2)

code = '''
import marshal, pickle, sys
from lazyflow.schedulers.core.errors.records import record
task = pickle.load(sys.stdin.buffer)
try:
    task()
except BaseException as error:
    sys.stdout.buffer.write(marshal.dumps(record(error)))
'''
done = subprocess.run([sys.executable, "-c", code], input=cloudpickle.dumps(task),
                      capture_output=True, check=True)
try:
    raise rebuilt(marshal.loads(done.stdout))
except Mine as error:
    print("caught", error, type(error) is Mine)
"""


def test_a_class_of_the_users_script_is_caught_by_it(tmp_path: pathlib.Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    child = in_child(str(tmp_path / "script.py"))
    assert (child.stdout, child.stderr) == (b"caught 1 2 True\n", b"")
