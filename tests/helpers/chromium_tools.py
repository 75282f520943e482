"""A page in headless Chromium, driven by its debugging protocol."""

import asyncio
import json
import shutil
import subprocess
from itertools import count
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
OPTIONS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--window-size=1200,800", "--remote-debugging-port=0",
]
LIMIT = 60  # seconds


class Page:
    """A page that was opened; a context manager."""

    def __init__(self, url: str, folder: Any) -> None:
        assert CHROMIUM is not None
        self._loop = asyncio.new_event_loop()
        self._numbers = count(1)
        self._process = subprocess.Popen(
            [CHROMIUM, *OPTIONS, f"--user-data-dir={folder}", "about:blank"],
            stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
        )
        assert self._process.stderr is not None
        for line in self._process.stderr:
            if line.startswith("DevTools listening on "):
                break
        self._socket = self._connected(line.split()[-1])
        (target,) = [
            each for each in self._told("Target.getTargets")["targetInfos"]
            if each["type"] == "page"
        ]
        self._session: str | None = self._told(
            "Target.attachToTarget", targetId=target["targetId"], flatten=True
        )["sessionId"]
        self._told("Page.navigate", url=url)

    _session = None

    def _connected(self, address: str) -> Any:
        from tornado.websocket import websocket_connect

        async def connect() -> Any:
            return await websocket_connect(address, max_message_size=1 << 28)

        return self._loop.run_until_complete(connect())

    def _told(self, method: str, **params: Any) -> Any:
        """Send a command and return its answer."""
        number = next(self._numbers)
        message: dict[str, Any] = {"id": number, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session

        async def answer() -> Any:
            await self._socket.write_message(json.dumps(message))
            while True:
                found = json.loads(await self._socket.read_message())
                if found.get("id") == number:
                    assert "error" not in found, found
                    return found["result"]

        return self._loop.run_until_complete(asyncio.wait_for(answer(), LIMIT))

    def value(self, expression: str) -> Any:
        """Return the value of an expression of JavaScript; of a promise, what it becomes."""
        found = self._told(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def until(self, expression: str) -> Any:
        """Wait until an expression is true at the start of a frame, and return its value."""
        return self.value(
            "new Promise(done => { const look = () => { const found = (() => { try { return "
            f"{expression}; }} catch (error) {{ return false; }} }})(); "
            "found ? done(found) : setTimeout(look, 20); }; look(); })"
        )

    def move(self, x: float, y: float) -> None:
        """Move the mouse."""
        self._told("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def __enter__(self) -> "Page":
        return self

    def __exit__(self, *error: object) -> None:
        self._socket.close()
        self._process.terminate()
        self._process.wait(LIMIT)
        assert self._process.stderr is not None
        self._process.stderr.close()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()
