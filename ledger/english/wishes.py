"""The wish of a user that something is forgotten: "Forget that.", "wipe the therapy bit from your memory" (wishes/1)."""

from __future__ import annotations

import re

from ledger.domain.late import late

WISHES = "wishes/1"
_WISH = late(
    r"(?<!never )(?<!not )(?<!n't )(?<!n’t )(?<!dont )\b(?:forget|erase|wipe|unlearn|delete|remove)\s+(?:please\s+)?(?:"
    r"(?:that|this)(?=\s*(?:[,.!]|$|about\b|please\b|from (?:your|the) memory\b|again\b))"
    r"|(?:what|everything|anything|all)\s+(?:that\s+)?i\b|(?:that\s+)?i\s+(?:ever\s+)?(?:said|told|mentioned)\b"
    r"|(?:the|my)\s+(?:\w+\s+)?(?:thing|bit)\b|[\w ]{1,40}\bfrom your (?:memory|notes)\b)"
    r"|\b(?:forget|unlearn)\s+(?:about\s+)?my\b|\bscratch that(?=\s*(?:[,.!]|$|about\b))|\boff the record\b"
    r"|\b(?:do not|don['’]?t|never)\s+(?:remember|store|save|keep|record)\s+(?:this|that|any of (?:this|that))\b",
    re.I,
)


def wishes_to_forget(text: str) -> bool:
    """Return True if a user's text asks to forget what was said."""
    return _WISH.search(text) is not None
