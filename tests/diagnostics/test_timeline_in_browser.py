"""The page of a timeline in a browser: its bars, the words at the mouse, and nothing else."""

import threading

import pytest
from browser import CHROMIUM, page_of

import lazyflow
from lazyflow import compute, delayed

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


def test_bars_and_words_are_there_and_hostile_names_do_nothing(tmp_path):
    both = threading.Barrier(2)

    def together():
        both.wait(30)

    together.__name__ = together.__qualname__ = EVIL
    with lazyflow.profile() as p:
        compute([delayed(together, name=EVIL)() for _ in range(2)], num_workers=2)
    path = tmp_path / "timeline.html"
    p.timeline(path)
    longest = max(p.tasks, key=lambda task: task.seconds)
    with page_of(path, tmp_path / "browser") as page:
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
