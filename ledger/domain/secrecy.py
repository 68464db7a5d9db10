"""What the domain asks about secrets. The scanner reads files, so ``ledger/__init__.py`` hands it in."""

from collections.abc import Callable

redacted: Callable[[str], str] = str
"""A text with marks for the secrets in it."""
