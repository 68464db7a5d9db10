"""The question to the person at the terminal before a change that a program must not decide alone."""

from __future__ import annotations

import sys


def is_at_a_terminal() -> bool:
    return sys.stdin.isatty()


def is_confirmed(question: str) -> bool:
    """Ask on stderr and return True for "y" or "yes"; every other answer is a no."""
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")
