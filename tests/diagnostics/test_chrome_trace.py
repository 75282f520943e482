"""The trace is what Perfetto's reader of Chrome's format accepts."""

import json
from collections import defaultdict
from itertools import pairwise

import lazyflow
from lazyflow import compute, delayed
from lazyflow.diagnostics.profiling.recorder import write_trace
from lazyflow.diagnostics.profiling.records import UsageRecord


def inc(x):
    return x + 1


def nested(x):
    return delayed(inc)(x).compute()


def fail():
    raise ValueError("\x00</script>")


def traced(tmp_path):
    with lazyflow.profile() as p:
        compute([delayed(nested)(i) for i in range(20)], num_workers=2)
        compute(delayed(fail, name="\u202e<b>")(), on_error="collect")
    path = tmp_path / "trace.json"
    p.to_chrome_trace(path)
    return p, json.loads(path.read_text(encoding="utf-8"))


def test_every_event_has_the_fields_of_its_phase(tmp_path):
    _, trace = traced(tmp_path)
    assert trace["displayTimeUnit"] == "ms"
    for event in trace["traceEvents"]:
        assert {type(event[field]) for field in ("pid", "tid")} == {int}
        assert isinstance(event["name"], str)
        if event["ph"] == "X":
            assert event["ts"] >= 0
            assert event["dur"] >= 0
            assert isinstance(event["args"], dict)
        elif event["ph"] == "C":
            assert event["name"] in ("memory", "CPU")
            assert all(value >= 0 for value in event["args"].values())
        else:
            assert event["ph"] == "M"
            assert event["name"] in ("process_name", "thread_name", "thread_sort_index")


def test_tasks_are_there_with_their_times_and_details(tmp_path):
    p, trace = traced(tmp_path)
    slices = [e for e in trace["traceEvents"] if e["ph"] == "X" and e["cat"] != "caller"]
    assert sorted(e["name"] for e in slices) == ["inc"] * 20 + ["nested"] * 20 + ["\ufffd<b>"]
    first = min(slices, key=lambda e: e["ts"])
    assert first["ts"] == round(p.tasks[0].start * 1e6, 3)
    assert first["args"]["function"] == f"{__name__}.nested"
    assert "test_chrome_trace.py" in first["args"]["made at"]
    (failed,) = [e for e in slices if e["cat"] == "failed"]
    assert failed["args"]["failed"] is True


def test_slices_of_one_track_do_not_overlap_and_tracks_are_named(tmp_path):
    _, trace = traced(tmp_path)
    tracks = defaultdict(list)
    names = {}
    for event in trace["traceEvents"]:
        if event["ph"] == "X":
            tracks[event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
        elif event["ph"] == "M" and event["name"] == "thread_name":
            names[event["tid"]] = event["args"]["name"]
    assert names[0] == "caller"
    assert set(tracks) <= set(names)
    for spans in tracks.values():
        spans.sort()
        for (_, end), (start, _) in pairwise(spans):
            assert end <= start + 0.002  # both are rounded to nanoseconds


def test_memory_and_cpu_use_are_counters(tmp_path):
    path = tmp_path / "trace.json"
    write_trace(path, [], [], 2.0, [UsageRecord(0.5, 100, 20, 1.25), UsageRecord(1, None, 0, 1.0)])
    events = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    assert [(e["name"], e["ts"], e["args"]) for e in events if e["ph"] == "C"] == [
        ("memory", 500000.0, {"this process": 100, "workers": 20}),
        ("CPU", 500000.0, {"cores": 1.25}),
        ("CPU", 1000000.0, {"cores": 1.0}),
    ]
