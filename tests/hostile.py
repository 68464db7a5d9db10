"""Texts that mean harm: to the index that they are asked of, and to the terminal that shows them."""

from __future__ import annotations

import re

HOSTILE = (
    '"', "'", '"""', "NEAR(", "NEAR(tea coffee, 3)", "a:b", "content:tea", "*", "te*", "-tea", "^tea", "tea AND", "NOT tea",
    "OR OR", "(", ")", "{a b}: c", "tea\0coffee", "\0", "", " \t\n", "the of and a", "🙂", "🇩🇪👨‍👩‍👧",
    "مرحبا بالعالم", "你好世界", "x", "é", "ß", "_", "%", "\\", ";--", "'; DROP TABLE memories; --", "\u202etea",
    "\ufeff", "1e309", "+",
    "tea" * 5_000, "a " * 5_000, "/* tea",
)  # fmt: skip
EVIL = "a [bold red]b[/] :smile: \x1b[31mred\x1b]0;title\x07 \u202ertl \x9b2J \u2066 \r\x08 end"
RAW = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
