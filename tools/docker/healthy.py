"""The health check of a container: exit code 0 if its server answers.

The HTTP server answers ``/health``. The MCP server has no such path, and its refusal of a request without a token is an answer.
"""

from __future__ import annotations

import http.client
from collections.abc import Mapping

SECONDS = 4
ANSWERS: Mapping[int, tuple[str, int]] = {8766: ("/health", 200), 8765: ("/mcp", 401)}  # by port


def is_healthy(answers: Mapping[int, tuple[str, int]] = ANSWERS) -> bool:
    """Return True if the server of this container answers, whichever of the two it is."""
    return any(_status(port, path) == expected for port, (path, expected) in answers.items())


def _status(port: int, path: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    except OSError:
        return 0
    finally:
        connection.close()


if __name__ == "__main__":
    raise SystemExit(0 if is_healthy() else 1)
