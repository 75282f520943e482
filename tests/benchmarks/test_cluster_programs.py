"""Work of real size on a cluster: every program ends alike on all sides, and failures are named."""

import threading

import pytest
from benchmark_tools import case_of, run

from benchmarks import cluster
from benchmarks.cluster import contest
from benchmarks.cluster.contest import SIZES, Bench, Contest, Work, within
from benchmarks.measure import table_lines
from benchmarks.memory import forget_peak, peak_of

pytest.importorskip("distributed")


class Site:
    """A cluster that is only counted."""

    number = 1

    def start(self):
        pass

    def counts(self):
        return {"moved": 5.0, "share": 1.2}

    def shutdown(self):
        self.number += 1


def rows_of(works, **options):
    with Bench(SIZES["tiny"]) as bench:
        found = Contest(bench, Site())
        found.add("sum", works, **options)
        return found, found.table(cluster.CASES["arrays-distributed-2"], "1 MB")


def working(value, log=None):
    return Work(lambda _: log is not None and log.append(value), lambda _: value)


class TestContest:
    def test_what_was_counted_stands_below_the_row(self):
        _, table = rows_of({"lazyflow": working(3.0), "engine": working(3.0)}, counts=["moved"])
        assert table_lines(table, contest.SIDES)[2].strip() == "MB moved 5.00 | 5.00"

    def test_a_side_that_is_wrong_or_fails_is_named_and_the_rest_goes_on(self):
        def fails(_):
            raise MemoryError("915 MiB")

        _, table = rows_of(
            {"lazyflow": Work(fails, float), "engine": working(3.0), "by hand": working(4.0)})
        assert set(table.rows[0].samples) == {"engine"}
        assert table.rows[0].broken
        assert table.notes == [
            "sum, lazyflow failed: MemoryError: 915 MiB",
            "sum, by hand failed: AssertionError: wrong answer: 4.0, not 3.0",
        ]

    def test_all_have_to_find_what_is_right(self):
        _, table = rows_of({"lazyflow": working(3.0), "engine": working(4.0)}, right=4.0)
        assert table.notes == ["sum, lazyflow failed: AssertionError: wrong answer: 3.0, not 4.0"]

    def test_after_a_failure_sides_are_warmed_on_the_new_cluster(self):
        log = []
        found, _ = rows_of({"engine": working(3.0, log), "by hand": working(4.0)})
        assert found.site.number == 2
        assert log == [3.0] * 3  # the warm-up, the warm-up on the new cluster, the turn

    def test_what_does_not_end_is_left_alone(self):
        never = threading.Event()
        with pytest.raises(TimeoutError, match=r"^not done after 0.01 s$"):
            within(0.01, never.wait)
        never.set()

    def test_an_error_of_the_work_is_its_own(self):
        def fails():
            raise TimeoutError("mine")

        with pytest.raises(TimeoutError, match=r"^mine$"):
            within(10, fails)

    def test_peaks_can_be_forgotten(self):
        if not peak_of("self"):
            pytest.skip("nobody counts here")
        large = bytearray(b"1") * 100_000_000
        before = peak_of("self")
        del large
        forget_peak("self")
        assert peak_of("self") < before - 50_000_000


@pytest.mark.slow
@pytest.mark.parametrize("name", ["arrays", "larger", "delayed", "exchange"])
def test_every_program_ends_alike_on_all_sides(name, tmp_path):
    case = case_of(run(tmp_path, "--repeat", "1", "--only", f"{name}-distributed-2",
                       name="cluster"), f"{name}-distributed-2")
    assert case["notes"] == []
    for row in case["rows"]:
        if row["unit"] == "s":
            assert {"lazyflow", "engine"} <= set(row["sides"])
            assert row["counted"]["MB at most"]["lazyflow"] > 0


def test_each_kind_of_program_is_measured_on_each_engine_that_has_it():
    kinds = {name.rpartition("-")[0] for name in cluster.CASES}
    assert kinds == {
        "arrays-distributed", "larger-distributed", "delayed-distributed", "exchange-distributed",
        "delayed-ray", "exchange-ray",
    }  # fmt: skip
