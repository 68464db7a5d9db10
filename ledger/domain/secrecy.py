"""The domain's access to the secret scanner. The scanner reads files, so ``ledger/__init__.py`` hands it in."""

from collections.abc import Callable

MARK_BEGINS = "[redacted:"  # the beginning of the mark of a secret that was taken out

redacted: Callable[[str], str] = str
"""Return a text with marks for its secrets."""
