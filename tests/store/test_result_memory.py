"""Memory that others write into: found by its address, private when it is read, used again."""

import gc
import os
import subprocess
import sys

import pytest
from weaker_systems import writes_into_results

import lazyflow as lf
from lazyflow.finalizers import WeakTable, wait_for_last_calls
from lazyflow.store.memory import result_memory
from lazyflow.store.memory.available import Budget
from lazyflow.store.memory.result_memory import KEEP, LentMemory, borrowed, trim

pytestmark = writes_into_results

SIZE = 3 << 20


@pytest.fixture(autouse=True)
def no_kept_files(monkeypatch):
    """Those that other tests have left count as taken, too."""
    monkeypatch.setattr(result_memory, "_files", WeakTable())
    trim()
    yield
    trim()


def test_another_process_writes_it():
    memory = LentMemory(SIZE)
    code = (
        "import sys; from lazyflow.store.memory.result_memory import borrowed\n"
        "borrowed(eval(sys.argv[1]))[5:8] = b'abc'"
    )
    subprocess.run([sys.executable, "-c", code, repr(memory.address)], check=True)
    assert memory.edited(False)[4:9] == b"\0abc\0"


def test_edits_stay_here_and_memory_is_used_again_when_it_is_not_seen():
    memory = LentMemory(SIZE)
    written = borrowed(memory.address)
    written[:2] = b"ab"
    seen = memory.edited(True)
    seen[:1] = b"x"
    assert (seen[:2], written[:2]) == (b"xb", b"ab")
    assert LentMemory(SIZE).address != memory.address
    label = memory.address[2]
    del seen
    again = LentMemory(SIZE)
    assert again.address[2] == label
    borrowed(again.address)[1:2] = b"c"
    assert again.edited(True)[:2] == b"ac"


def test_memory_that_strangers_wrote_is_not_used_again():
    memory = LentMemory(SIZE)
    seen = memory.edited(again=False)
    label = memory.address[2]
    del seen, memory
    assert LentMemory(SIZE).address[2] != label


def test_memory_that_was_given_up_is_not_used_again_and_takes_no_room():
    memory = LentMemory(SIZE)
    written = borrowed(memory.address)
    written[:2] = b"ab"
    label = memory.address[2]
    del memory
    gc.collect()
    wait_for_last_calls()
    assert written[:2] == b"\0\0"
    assert LentMemory(SIZE).address[2] != label


def test_what_is_gone_or_another_file_is_not_borrowed():
    process = LentMemory(SIZE).address[0]
    read, write = os.pipe()
    try:
        assert borrowed((process, read, "lazyflow-of-before")) is None
        assert borrowed((process, 1 << 20, "lazyflow-of-before")) is None
    finally:
        os.close(read)
        os.close(write)


def test_no_more_is_lent_than_may_be_shared():
    with lf.config.set(store_limit=1 << 20), pytest.raises(OSError, match="store_limit"):
        LentMemory(SIZE)
    with lf.config.set(store_limit=SIZE):
        memory = LentMemory(SIZE)
        with pytest.raises(OSError, match="store_limit"):
            LentMemory(SIZE)
        assert len(memory.edited(False)) == SIZE


def test_memory_that_is_lent_and_not_written_yet_counts_as_taken(monkeypatch):
    there = Budget(None, lambda: None).reserve + SIZE + SIZE // 2
    monkeypatch.setattr(result_memory, "available_memory", lambda: there)
    first = LentMemory(SIZE)
    with pytest.raises(OSError, match="the machine has"):
        LentMemory(SIZE)
    seen = first.edited(False)
    assert len(LentMemory(SIZE).edited(False)) == len(seen) == SIZE


def test_no_more_files_are_lent_than_a_process_may_have_open():
    memory = []
    with pytest.raises(OSError, match="files of lent memory"):
        while len(memory) < 500:
            memory.append(LentMemory(4096))
    del memory[0]
    wait_for_last_calls()
    assert LentMemory(4096).edited(False)[:1] == b"\0"


def test_pages_beyond_those_that_are_kept_go_back_when_nobody_looks_at_them():
    memory = [LentMemory(KEEP // 2 + 4096) for _ in range(2)]
    written = [borrowed(each.address) for each in memory]
    for each in written:
        each[:2] = b"ab"
    seen = [each.edited(True) for each in memory]
    assert [each[:2] for each in seen] == [b"ab", b"ab"]
    seen.clear()
    wait_for_last_calls()
    assert sorted(each[:2] for each in written) == [b"\0\0", b"ab"]


def test_what_the_child_of_a_fork_sees_is_not_written_again():
    memory = LentMemory(SIZE)
    borrowed(memory.address)[:2] = b"ab"
    seen = memory.edited(True)
    go, tell = os.pipe()
    child = os.fork()
    if not child:
        os.read(go, 1)
        os._exit(seen[:2] != b"ab")
    label = memory.address[2]
    del seen, memory
    again = LentMemory(SIZE)
    borrowed(again.address)[:2] = b"cd"
    os.write(tell, b".")
    assert os.waitpid(child, 0)[1] == 0
    assert again.address[2] != label
    os.close(go)
    os.close(tell)


def test_the_child_of_a_fork_uses_memory_of_its_own():
    memory = LentMemory(SIZE)
    borrowed(memory.address)[:2] = b"ab"
    seen = memory.edited(True)
    read, write = os.pipe()
    child = os.fork()
    if not child:
        del seen
        os.write(write, LentMemory(SIZE).address[2].encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read, 100).decode() != memory.address[2]
    assert seen[:2] == b"ab"
    os.close(read)
    os.close(write)
