"""The live page as Chromium shows it."""

import pytest
from browser import CHROMIUM, page_of

import lazyflow
from lazyflow import compute, delayed

pytest.importorskip("tornado")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")

ROWS = """[...document.querySelectorAll("#progress tr")].map(
    row => [...row.cells].map(cell => cell.textContent))"""


def test_the_page_shows_what_runs_and_hostile_names_do_nothing(tmp_path):
    hostile = ["<script>document.title='hit'</script>", '"><img src=x onerror="document.title=1">']
    with lazyflow.dashboard() as opened, page_of(opened.url, tmp_path) as page:
        page.until('document.getElementById("state").textContent.startsWith("nothing runs")')
        assert not page.evaluate('document.getElementById("none").hidden')
        compute([delayed(abs, name=name)(-1) for name in hostile], scheduler="processes")
        compute(delayed(sum)([delayed(abs)(-i) for i in range(20)]), scheduler="processes")
        page.until('document.getElementById("state").textContent === "nothing runs, 2 runs over"')
        rows = page.evaluate(ROWS)
        assert [row[0] for row in rows] == [*hostile, "abs", "sum"]
        assert [row[2:4] for row in rows] == [["1", "1"], ["1", "1"], ["20", "20"], ["1", "1"]]
        assert page.evaluate("document.title") == "lazyflow"
        assert page.evaluate('document.querySelectorAll("img, main script").length') == 0
        # A call is drawn, and its name and time are shown below the mouse.
        box = page.until("drawn.length === 23 && drawn[0]")
        left, top = page.evaluate(
            "(() => { const box = canvas.getBoundingClientRect(); return [box.left, box.top]; })()"
        )
        page.point_at(left + box[0] + 1, top + box[1] + 5)
        text = page.until("!hover.hidden && hover.textContent")
        assert text.startswith("sum\n") and " on process " in text
        assert page.evaluate('document.getElementById("none").hidden')
        opened.close()
        page.until('document.getElementById("state").textContent.startsWith("the page is closed")')
