"""What the driver of processes waits with: a call belongs to a descriptor as long as it is open."""

import os

from lazyflow.schedulers.processes.parent.event_loop import EventLoop


def test_a_descriptor_that_was_replaced_has_no_call_that_was_due_before():
    """Workers that end together: the new one of the first gets descriptors of the others."""
    loop, called = EventLoop(), []
    pipes = [os.pipe(), os.pipe()]
    new, new_end = os.pipe()

    def replace(ended):
        called.append("ended")
        (other,) = [read for read, _ in pipes if read != ended]
        loop.remove(other)
        os.dup2(new, other)
        loop.add(other, lambda: called.append("new"))
        loop.remove(ended)

    try:
        for read, write in pipes:
            os.write(write, b"x")
            loop.add(read, lambda read=read: replace(read))
        loop.sleep(0)
        assert called == ["ended"]
        os.write(new_end, b"x")
        loop.sleep(0)
        assert called == ["ended", "new"]
    finally:
        loop.close()
        for fd in (*pipes[0], *pipes[1], new, new_end):
            os.close(fd)
