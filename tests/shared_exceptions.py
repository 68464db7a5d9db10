"""The tests that cannot hold over a shared log, by reason; ``--shared`` skips them."""

from __future__ import annotations

EXCEPTIONS: dict[str, tuple[str, ...]] = {
    "it has shared logs of its own": ("shared/",),
}
REASONS = {place: reason for reason, places in EXCEPTIONS.items() for place in places}


def reason_of(node: str) -> str:
    """Return why a test is left out; "" if it runs."""
    name = node.partition("[")[0].removeprefix("tests/")
    file = name.partition("::")[0]
    folder = file.partition("/")[0] + "/"
    return next((REASONS[place] for place in (name, file, folder) if place in REASONS), "")
