"""The pages of a profile in a browser: bars, boxes, the words at the mouse, and nothing else."""

import threading

import pytest
from browser import CHROMIUM, page_of

import lazyflow
from lazyflow import compute, delayed
from lazyflow.diagnostics.profiling.pages import Flame, timeline
from lazyflow.diagnostics.profiling.records import UsageRecord
from lazyflow.diagnostics.profiling.samples import SampledStack

pytest.importorskip("bokeh")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium; apt-get install chromium"),
]

DO = "document.title='EVIL'"
EVIL = f'<img src=x onerror="{DO}"></script><script>{DO}</script>'

#: What Bokeh has drawn: the place of the plot's frame in the window, once there is one.
FRAME = """
new Promise(resolve => { const look = () => {
  const view = globalThis.Bokeh?.index?.roots?.[0];
  if (!view?.frame?.bbox.width) return setTimeout(look, 20);
  const box = view.canvas_view.el.getBoundingClientRect(), {left, top, width, height} =
    view.frame.bbox;
  requestAnimationFrame(() => resolve([box.left + left, box.top + top, width, height]));
}; look() })
"""

#: The texts of the tooltips that are shown, in all shadow trees.
TOOLTIPS = """
new Promise(resolve => { let tries = 0; const look = () => {
  const found = [], walk = node => { for (const child of node.querySelectorAll("*")) {
    if (child.shadowRoot) walk(child.shadowRoot);
    if (child.className?.includes?.("bk-tooltip-row-value")) found.push(child.textContent);
  } };
  walk(document);
  if (!found.length && ++tries < 200) return setTimeout(look, 20);
  resolve(found);
}; look() })
"""

#: The range that is shown, once it is not the whole one of 4 seconds.
SHOWN = """
new Promise(resolve => { let tries = 0; const look = () => {
  const {start, end} = globalThis.Bokeh.index.roots[0].model.x_range;
  if (end - start === 4 && ++tries < 200) return setTimeout(look, 20);
  resolve([start, end]);
}; look() })
"""


def test_bars_and_words_are_there_and_hostile_names_do_nothing(tmp_path):
    both = threading.Barrier(2)

    def together():
        both.wait(30)

    together.__name__ = together.__qualname__ = EVIL
    with lazyflow.profile(sample=None) as p:  # whose lanes are all that is drawn
        compute([delayed(together, name=EVIL)() for _ in range(2)], num_workers=2)
    path = tmp_path / "timeline.html"
    p.timeline(path)
    longest = max(p.tasks, key=lambda task: task.seconds)
    with page_of(path.as_uri(), tmp_path / "browser") as page:
        left, top, width, height = page.evaluate(FRAME)
        lane = 1 + sorted({task.worker for task in p.tasks}).index(longest.worker)
        middle = (longest.start + longest.end) / 2 / p.seconds
        page.point_at(left + middle * width, top + (lane + 0.5) / 3 * height)
        words = page.evaluate(TOOLTIPS)
        assert words[0].startswith(EVIL[:40])
        assert any("test_timeline_in_browser.py" in each for each in words)
        assert page.evaluate("document.title") == "lazyflow timeline"
        assert page.evaluate("document.images.length") == 0
        assert {url.partition(":")[0] for url in page.requests[1:]} <= {"data"}  # icons
        assert page.exceptions == []
        assert len(set(page.picture())) > 100  # not one colour


def test_a_flame_has_words_at_the_mouse_and_a_click_shows_a_box_alone(tmp_path):
    stacks = {((EVIL, "a.py", 1), ("g", "b.py", 9)): 3.0, (("f", "a.py", 2),): 1.0}
    flame = Flame([SampledStack(EVIL, stack, 2, time) for stack, time in stacks.items()], [], 0.01)
    path = tmp_path / "flame.html"
    flame.write(path)
    with page_of(path.as_uri(), tmp_path / "browser") as page:
        left, top, width, height = page.evaluate(FRAME)
        at = left + 0.3 * width, top + 2.5 / 4 * height
        page.point_at(*at)
        function, *others = [word.strip() for word in page.evaluate(TOOLTIPS)]
        assert function == f"{EVIL[:79]}…  a.py:1"
        assert others == ["a.py:1", "", "3 s (75%)", "2"]
        for kind in "mousePressed", "mouseReleased":
            page.call("Input.dispatchMouseEvent", type=kind, x=at[0], y=at[1], button="left",
                      clickCount=1)
        assert page.evaluate(SHOWN) == [0, 3]
        assert page.evaluate("document.title") == "lazyflow flame"
        assert page.evaluate("document.images.length") == 0
        assert {url.partition(":")[0] for url in page.requests[1:]} <= {"data"}  # icons
        assert page.exceptions == []
        assert len(set(page.picture())) > 100  # not one colour


def test_memory_and_cpu_use_have_words_at_the_mouse(tmp_path):
    path = tmp_path / "timeline.html"
    timeline(path, [], [], 2.0, [UsageRecord(2.0, 100, 300, 2.0)])
    with page_of(path.as_uri(), tmp_path / "browser") as page:
        left, top, width, height = page.evaluate(FRAME)
        page.point_at(left + 0.5 * width, top + 6 / 7 * height)
        words = [word.strip() for word in page.evaluate(TOOLTIPS)]
        assert words == ["100 bytes here, 300 bytes in workers", "2 cores in use"]
        assert page.exceptions == []
