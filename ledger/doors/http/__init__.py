"""An HTTP server with JSON over a ledger, for programs in any language: ``memory-ledger serve``. Needs the extra ``http``.

``app`` holds the paths, ``questions`` their arguments, ``describing`` the schema of the answers, ``following`` the stream of
events, ``metrics`` the figures for a monitor, ``refusing`` what becomes of an error and of a request that is not meant for this
server, and ``serving`` runs it all.
"""

from __future__ import annotations

try:
    import fastapi  # noqa: F401
    import uvicorn  # noqa: F401
except ImportError as error:
    raise ImportError(
        f'the HTTP server needs the package {error.name}: pip install "belief-ledger[http]"',
        name=error.name,
    ) from None

from ledger.doors.http.app import make_app as make_app

__all__ = ["make_app"]
