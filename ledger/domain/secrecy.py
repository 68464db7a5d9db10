"""What the domain asks about secrets. The scanner reads files, so ``ledger/__init__.py`` hands it in."""

from collections.abc import Callable

MARK_BEGINS = "[redacted:"  # of what stands for a secret that was taken out

redacted: Callable[[str], str] = str
"""A text with marks for the secrets in it."""
