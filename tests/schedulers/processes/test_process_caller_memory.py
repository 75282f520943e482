"""What a program needs of its own memory to send large things to the workers of processes."""

import subprocess
import sys

import pytest

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc"),
    pytest.mark.timeout(60),
]

PROGRAM = """
import numpy as np
import lazyflow
from lazyflow import compute, delayed

def peak():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) >> 10

lazyflow.config.set(scheduler="processes", num_workers=2)
compute([delayed(np.sum)(np.ones(3)) for _ in range(8)])
{made}
def length(value, k): return len(value) + k
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")  # the peak begins anew
before = peak()
{calls}
print(peak() - before)
"""

ARRAY = "value = np.ones(5_000_000)  # 40 MB"
NUMBERS = "value = [float(i) for i in range(1_000_000)]  # 32 MB; a copy takes 8"
LIST = "value = [bytes([i % 256]) * 50_000 for i in range(400)]  # 20 MB"

#: How large things are made, what uses them, and what the peak may grow by, in MiB: about
#: one pickle, not one for each message or call.
CASES = {
    "a closure over an array": (
        ARRAY, "compute([delayed(length_of)(k) for k in range(20)])", 60
    ),
    "a closure over a list": (LIST, "compute([delayed(length_of)(k) for k in range(20)])", 60),
    "partials": (  # two at a time: each is compared with the first
        ARRAY, "compute([delayed(functools.partial(length, value))(k) for k in range(20)])", 100
    ),
    "an array as an argument": (
        ARRAY, "compute([delayed(length)(value, k) for k in range(20)])", 20
    ),
    "a list of numbers as an argument": (
        NUMBERS, "compute([delayed(length)(value, k) for k in range(12)])", 60
    ),
    "a list as an argument": (LIST, "compute([delayed(length)(value, k) for k in range(12)])", 70),
}


@pytest.mark.parametrize(("made", "calls", "most"), CASES.values(), ids=CASES)
def test_many_calls_with_something_large(made: str, calls: str, most: int) -> None:
    lines = f"import functools\ndef length_of(k): return len(value) + k\n{calls}"
    program = PROGRAM.format(made=made, calls=lines)
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert not ran.returncode, ran.stderr
    assert int(ran.stdout) < most
