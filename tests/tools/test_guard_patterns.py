"""The data file of the guards is what its sources say."""

from __future__ import annotations

import re
from pathlib import Path

from ledger.domain.scan import patterns, secrets, spoken
from tools.pages import guard_patterns


def test_the_file_of_patterns_is_what_their_sources_say() -> None:
    assert Path(patterns.PATH).read_bytes() == guard_patterns.derived(), "run tools/pages/guard_patterns.py"


def test_only_what_is_asked_for_by_name_is_kept_of_the_parts() -> None:
    sources = "".join(Path(module.__file__).read_text(encoding="utf-8") for module in (secrets, spoken))
    asked = set(re.findall(r'part\((?:"secrets", )?"(\w+)"\)', sources))
    assert {name: set(each.parts) for name, each in patterns.read().items()} == {
        "threats": set(),
        "secrets": asked,
        "claims": set(),
    }
