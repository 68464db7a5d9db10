"""How many tokens a text takes, estimated without a tokenizer: rounded up, because a budget that is passed fails a call."""

from __future__ import annotations

import re

_PIECES = re.compile(r"[A-Za-z]+|[0-9]+|[^\sA-Za-z0-9]")


def estimate(text: str) -> int:
    """Tokens of a text for a byte-pair vocabulary of 100,000 and up: one for each started six letters of a word, each
    started three digits, each other ASCII sign, and each other character up to U+FFFF; two beyond."""
    return sum(map(_of_piece, _PIECES.findall(text)))


def _of_piece(piece: str) -> int:
    if piece.isascii():
        return -(-len(piece) // (3 if piece[0].isdigit() else 6))
    return 1 if piece < "\U00010000" else 2
