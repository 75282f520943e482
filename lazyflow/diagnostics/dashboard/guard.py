"""Who may ask the dashboard, and the headers of its answers.

The page is served on loopback only, where every user of the machine and every web page that a
browser shows could ask: so an address has a token in it, and what comes by way of another page is
refused. There is only GET, and nothing that is asked changes anything.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping

__all__ = ["HEADERS", "refusal"]

_NOTEBOOKS = "http://localhost:* http://127.0.0.1:*"  # which may show the page inside of theirs

#: The headers of every answer.
HEADERS = {
    "Content-Security-Policy": (
        f"default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors {_NOTEBOOKS}"
    ),
    "X-Frame-Options": "DENY",  # for browsers that don't know frame-ancestors
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",  # the address has the token in it
    "Cache-Control": "no-store",
}


def refusal(
    headers: Mapping[str, str], port: int, token: str, given: str, is_page: bool
) -> int | None:
    """Return the status with which a request is refused, None if it may be answered.

    Parameters
    ----------
    given
        The token in the address that was asked for.
    is_page
        Whether it is the page itself, which a link or a notebook on another port may open.

    Examples
    --------
    >>> refusal({"Host": "127.0.0.1:80"}, 80, "secret", "secret", True)
    >>> refusal({"Host": "evil.example"}, 80, "secret", "secret", True)
    403
    >>> refusal({"Host": "localhost:80"}, 80, "secret", "guessed", True)
    401
    """
    hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}
    if headers.get("Host", "").lower() not in hosts:
        return 403  # a name of somebody else's that was made to lead here
    origin = headers.get("Origin")
    if origin is not None and origin.lower().removeprefix("http://") not in hosts:
        return 403
    is_opened = is_page and headers.get("Sec-Fetch-Mode") == "navigate"
    if headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin") and not is_opened:
        return 403
    if not hmac.compare_digest(given.encode(), token.encode()):
        return 401
    return None
