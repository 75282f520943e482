"""Programs that tests start, and what they leave behind."""

from typing import Any

import pytest


def slow(*values: Any) -> Any:
    return pytest.param(*values, marks=pytest.mark.slow)

GONE = 2.0  # seconds that anything may live on after its parent

RUNNING = {
    "sleeping in C": "time.sleep(60)",
    "looping": "\n    while True: pass",
    "catching everything": """
    while True:
        try:
            while True: pass
        except BaseException: pass""",
    "holding the lock in C": "3 ** 300_000_000",
    "with children": "import subprocess; subprocess.run(['sleep', '60'])",
}

STATES = {
    "idle": "up()\nsay('ready')\ntime.sleep(60)",
    "holding values": """
import numpy
x = persist([delayed(numpy.ones)(1_000_000) for _ in range(4)], **ON)[0]
both = delayed(lambda a, b: (a + b).sum())(*x[:2])
assert compute(delayed(sum)([y.sum() for y in x]), both, **ON) == (4_000_000, 2_000_000)
seen = compute(x[0])
say("ready")
time.sleep(60)
""",
    **{f"running, {what}": f"""
def long(i):
    say("begun")
    {body}
up()
x = persist([delayed(long)(i) for i in range(12)], **ON)
time.sleep(60)
""" for what, body in RUNNING.items()},
}
