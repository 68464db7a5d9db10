"""What is async is refused by name when the ledger is opened, for nobody would wait for its answer."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ledger import Ledger, RejectedError


async def answer_later(given: object) -> str:
    return str(given)


class Later:
    name = "later"

    async def __call__(self, given: object) -> str:
        return str(given)


class Methods:
    name = "methods"

    async def answer(self, given: object) -> str:
        return str(given)

    summarize = embed = answer


@pytest.mark.parametrize("what", ["model", "summarizer", "embedder", "token_counter"])
@pytest.mark.parametrize("given", [answer_later, Later(), Methods(), partial(answer_later)])
def test_what_is_async_is_refused_by_name(tmp_path: Path, what: str, given: Any) -> None:
    if what == "token_counter" and isinstance(given, Methods):
        pytest.skip("a counter has no method")
    if isinstance(given, partial):
        given.name = "later"  # type: ignore[attr-defined]
    with pytest.raises(
        RejectedError, match=r"is a plain function, and [\w.]+ is async; wrap it: .*asyncio.run"
    ) as refused:
        Ledger.open(tmp_path / "memory.db", **{what: given})
    assert refused.value.rule == "async" and not (tmp_path / "memory.db").exists()
