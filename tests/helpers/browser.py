"""A headless Chromium that tests drive by its debugging protocol."""

import asyncio
import base64
import json
import os
import re
import shutil
import subprocess
import urllib.request
from contextlib import contextmanager

NAMES = ("chromium", "chromium-browser", "google-chrome")

#: Where it is, or None; LAZYFLOW_CHROMIUM says where it is not on the PATH.
CHROMIUM = os.environ.get("LAZYFLOW_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)

_ADDRESS = re.compile(r"DevTools listening on ws://127\.0\.0\.1:(\d+)/")


class Page:
    """A page of the browser; what it asked for over the network is in `requests`."""

    def __init__(self, loop, connection):
        self._loop, self._connection, self._number = loop, connection, 0
        self.requests, self.exceptions = [], []
        for domain in ("Page", "Network", "Runtime"):
            self.call(f"{domain}.enable")

    def call(self, method, **parameters):
        """Call a method of the protocol; return its result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        talk = asyncio.wait_for(self._talk(json.dumps(message)), 30)
        return self._loop.run_until_complete(talk)

    async def _talk(self, message):
        await self._connection.write_message(message)
        while True:
            answer = json.loads(await self._connection.read_message())
            if answer.get("id") == self._number:
                return answer["result"]
            if answer["method"] == "Network.requestWillBeSent":
                self.requests.append(answer["params"]["request"]["url"])
            elif answer["method"] == "Runtime.exceptionThrown":
                self.exceptions.append(answer["params"])

    def evaluate(self, expression):
        """Return the value of a JavaScript expression, awaited if it is a promise."""
        answer = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def until(self, expression):
        """Wait until an expression is true, and return its value."""
        return self.evaluate(
            "new Promise(done => { const look = () => { const found = (() => { try { return "
            f"{expression}; }} catch (error) {{ return false; }} }})(); "
            "found ? done(found) : setTimeout(look, 20); }; look(); })"
        )

    def point_at(self, x, y):
        """Move the mouse to a place of the window."""
        for step in (2, 1, 0):
            self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x - step, y=y)

    def picture(self):
        """Return a PNG of the window."""
        return base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])


@contextmanager
def page_of(url, profile):
    """Open a page in a browser whose own files go to the folder `profile`."""
    from tornado.websocket import websocket_connect

    browser = subprocess.Popen(
        [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0",
         "--window-size=1200,800", f"--user-data-dir={profile}", "about:blank"],
        stderr=subprocess.PIPE, text=True,
    )
    loop = asyncio.new_event_loop()
    try:
        port = next(found[1] for line in browser.stderr if (found := _ADDRESS.search(line)))
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/json") as answer:
            target = next(each for each in json.load(answer) if each["type"] == "page")

        async def connect():
            return await websocket_connect(target["webSocketDebuggerUrl"], max_message_size=1 << 28)

        connection = loop.run_until_complete(connect())
        page = Page(loop, connection)
        page.call("Page.navigate", url=url)
        yield page

        async def close():  # tornado asks for the running loop
            connection.close()

        loop.run_until_complete(close())
    finally:
        browser.terminate()
        browser.wait()
        browser.stderr.close()
        loop.close()
