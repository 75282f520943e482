"""What tasks on processes log and warn of arrives as from threads."""

import logging
import logging.handlers
import queue
import sys
import warnings

import numpy as np
import pytest

import lazyflow
import lazyflow.array as la
from lazyflow import actor, compute, delayed

ON = {"scheduler": "processes", "num_workers": 1}


class Mine(UserWarning):
    pass


def logs(*levels):
    for level in levels:
        logging.getLogger("tests.of.logging").log(level, "at %s", level, extra={"more": [level]})


def fails(x):
    try:
        return x / 0
    except ZeroDivisionError:
        logging.getLogger("tests.of.logging").exception("no %s", x)


def warns(text, category=UserWarning):
    warnings.warn(text, category, stacklevel=1)
    return text


@pytest.fixture
def records():
    """What handlers of the root logger get; the levels are as before afterwards."""
    found = []
    handler = logging.Handler()
    handler.emit = found.append
    logging.root.addHandler(handler)
    logger = logging.getLogger("tests.of.logging")
    level = logging.root.level
    yield found
    logging.root.removeHandler(handler)
    logging.root.setLevel(level)
    logger.setLevel(logging.NOTSET)
    logging.disable(logging.NOTSET)


def test_records_arrive_with_levels_as_they_are_now(records):
    def levels():
        records.clear()
        delayed(logs)(10, 20, 30, 40).compute(**ON)
        return [record.levelno for record in records]

    assert levels() == [30, 40]
    logging.getLogger("tests.of.logging").setLevel(logging.DEBUG)
    assert levels() == [10, 20, 30, 40]
    assert [r.getMessage() for r in records] == ["at 10", "at 20", "at 30", "at 40"]
    assert (records[0].more, records[0].funcName) == ([10], "logs")
    logging.getLogger("tests.of.logging").setLevel(logging.NOTSET)
    logging.root.setLevel(logging.ERROR)
    assert levels() == [40]
    logging.disable(logging.ERROR)
    assert levels() == []


def test_an_exception_is_logged_with_its_traceback(records, capfd):
    assert delayed(fails)(3).compute(**ON) is None
    text = logging.Formatter().format(records[0])
    assert text.startswith("no 3\nTraceback") and "return x / 0" in text
    assert "no 3" not in capfd.readouterr().err.replace(text, "")


def test_a_handler_that_only_the_worker_has_is_called_there(records):
    def f():
        found = queue.SimpleQueue()
        mine = logging.handlers.QueueHandler(found)
        logging.getLogger("tests.of.logging").addHandler(mine)
        logs(40)
        logging.getLogger("tests.of.logging").removeHandler(mine)
        return found.get_nowait().getMessage()

    assert delayed(f)().compute(**ON) == "at 40"
    assert len(records) == 1


def test_a_handler_that_raises_ends_nothing(capfd):
    class Bad(logging.Handler):
        def handle(self, record):
            raise ValueError("bad handler")

    bad = Bad()
    logging.root.addHandler(bad)
    try:
        assert delayed(logs)(40).compute(**ON) is None
        assert delayed(abs)(-1).compute(**ON) == 1
    finally:
        logging.root.removeHandler(bad)
    assert "ValueError: bad handler" in capfd.readouterr().err


def test_actors_log_and_warn_as_well(records):
    class Noisy:
        def go(self):
            logs(40)
            return warns("of an actor")

    noisy = actor(Noisy, scheduler="processes")()
    with pytest.warns(UserWarning, match="of an actor"):
        assert noisy.go().result() == "of an actor"
    assert [r.levelno for r in records] == [40]


@pytest.mark.parametrize("category", [UserWarning, Mine])
def test_warnings_that_are_errors(category):
    with warnings.catch_warnings():
        warnings.simplefilter("error", category)
        with pytest.raises(category, match="loud"):
            delayed(warns)("loud", category).compute(**ON)
        warnings.simplefilter("ignore", category)
        assert delayed(warns)("loud", category).compute(**ON) == "loud"


class Finer(Mine):
    pass


def warns_of_sparse():
    from scipy.sparse import SparseEfficiencyWarning

    warnings.warn("slow", SparseEfficiencyWarning, stacklevel=1)


def has_imported(name):
    return name in sys.modules


def test_filters_are_of_categories_that_workers_need_not_import():
    """A filter holds for its category's subclasses, whenever a task imports it, and costs none."""
    import scipy.sparse

    lazyflow.shutdown()  # its workers may have imported all kinds of things
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", Mine)
        warnings.simplefilter("ignore", scipy.sparse.SparseEfficiencyWarning)
        assert compute(delayed(has_imported)("scipy"), **ON) == (False,)
        compute(delayed(warns)("m", Mine), delayed(warns)("f", Finer), **ON)
        compute(delayed(warns_of_sparse)(), **ON)
        with pytest.raises(UserWarning, match="u"):
            compute(delayed(warns)("u", UserWarning), **ON)


class Text(str):
    __slots__ = ()

    def __reduce__(self):
        return no_such_thing, ()


def no_such_thing():
    raise ImportError("not in a worker")


def test_a_filter_that_can_not_be_opened_is_left_out():
    lazyflow.shutdown()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filters.insert(0, ("ignore", Text("x"), UserWarning, None, 0))
        assert compute(delayed(abs)(-1), **ON) == (1,)
        with pytest.raises(UserWarning, match="u"):
            compute(delayed(warns)("u", UserWarning), **ON)


def test_warnings_are_recorded_each_time():
    for _ in range(2):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("default")
            assert compute([delayed(warns)("one", Mine) for _ in range(3)], **ON)
        assert [(w.category, str(w.message), w.filename) for w in found] == [
            (Mine, "one", __file__)
        ]
        assert found[0].lineno == warns.__code__.co_firstlineno + 1
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        assert compute([delayed(warns)("one", Mine) for _ in range(3)], **ON)
    assert len(found) == 3


def test_warnings_of_arrays():
    x = la.from_array(np.array([1.0, 0.0, 2.0, 0.0]), chunks=2)
    y = la.map_blocks(np.reciprocal, x)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        y.compute(**ON)
    assert {(w.category, str(w.message)) for w in found} == {
        (RuntimeWarning, "divide by zero encountered in reciprocal")
    }
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeWarning, match="divide by zero"):
            y.compute(**ON)


def test_each_compute_warns_once_of_what_numbers_do_in_arrays_and_names_the_line():
    x = la.from_array(np.array([1.0, 0.0, 2.0, 0.0]), chunks=1)
    told = []
    for _ in range(2):  # the worker has the function of the second from the first
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            line = sys._getframe().f_lineno + 1
            (1 / x).compute(**ON)
        told += [(w.category, str(w.message), w.filename, w.lineno) for w in found]
    assert told == [(RuntimeWarning, "divide by zero encountered in divide", __file__, line)] * 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeWarning, match="divide by zero encountered in divide"):
            (1 / x).compute(**ON)


def test_lines_of_two_files_warn_each():
    def f(file):
        warnings.warn_explicit("here", UserWarning, file, 3)

    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("default")
        for _ in range(2):
            compute([delayed(f)(file) for file in ("one.py", "other.py")], **ON)
    assert [(w.filename, w.lineno) for w in found] == [("one.py", 3), ("other.py", 3)]


def test_a_flood_of_one_warning_is_sent_once():
    def f():
        for _ in range(1000):
            warns("again")

    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("default")
        delayed(f)().compute(**ON)
    assert [str(w.message) for w in found] == ["again"]
