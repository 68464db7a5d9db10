"""The cost of a call, counted and not timed: a busy machine is slower, and takes no more steps.

The steps inside one call of C, such as those of a regular expression, are not seen. Where they could grow with the square of a
text, a test takes a text so long that a square would not end before the time that pytest leaves a test.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


def steps(call: Callable[[], object]) -> int:
    """Return the number of lines of Python that a call runs, with every round of a loop."""
    count = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    with uncollected():  # a collection calls what others hung on it, and comes when it likes
        sys.settrace(trace)
        try:
            call()
        finally:
            sys.settrace(before)
    return count


@contextmanager
def uncollected() -> Iterator[None]:
    """Put garbage collections off; while many objects are made that stay, they take most of the time."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()
