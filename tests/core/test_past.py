"""``ledger.at(moment)``: exactly the reads that were decided, and nothing that writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from ledger import RejectedError
from ledger.api import Ledger, PastLedger
from ledger.domain.errors import ReadOnlyError
from ledger.models.port import MODEL
from tests import probe

READS = {
    "memories": "list get confidence",
    "interactions": "list get",
    "documents": "list get get_chunk",
    "values": "get list namespaces",
    "observations": "list get",
    "conflicts": "list get",
    "merges": "list get",
    "graph": "neighbors",
    "projects": "list get of context state",
    "sessions": "list get grep",
    "history": "audit events explain blame distrusted model_calls",
    "guards": "quarantined refusals",
    "policy": "get",
    "proof": "digest",
    "maintenance": "stats",
    "projections": "list get rows",
}


def public(thing: object) -> set[str]:
    return {name for name in dir(thing) if not name.startswith("_")}


def test_the_past_has_the_reads_that_were_decided_and_no_others(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "memory.db", user="ada") as ledger:
        past = ledger.at(1)
        flat = {
            "context",
            "recall",
            "profile",
            "why",
            "review",
            "query",
            "session",
            "path",
            "position",
            "as_of",
            "valid_at",
        }
        assert public(PastLedger) - READS.keys() == flat
        for area in public(PastLedger) & READS.keys():
            assert public(getattr(past, area)) == set(READS[area].split()), area
        assert not hasattr(past, "remember") and not hasattr(past, "reopen")
        with pytest.raises(RejectedError):
            past.recall("tea", receipt=True)


def test_a_profile_is_packed_in_characters_or_tokens(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "memory.db", user="ada") as ledger:
        ledger.remember("The user drinks green tea.", kind="preference")
        ledger.remember("The user lives in Porto.", kind="identity")
        chars, tokens = ledger.profile(budget=60), ledger.profile(budget=50, unit="tokens")
        assert (len(chars.items), chars.unit, len(tokens.items), tokens.unit) == (1, "chars", 2, "tokens")
        assert chars.used <= 60 and len(ledger.at(ledger.position).profile(unit="tokens").items) == 2
        assert repr(chars) == f"<Pack of 1, {chars.used} of 60 chars>"
        assert repr(ledger.why(chars.items[0].id)).startswith("<Why of m_")
        for wrong in ({"unit": "words"}, {"budget": -1}, {"budget": "9"}):
            with pytest.raises(RejectedError):
                ledger.profile(**wrong)  # type: ignore[arg-type]


def test_a_recall_above_the_cap_is_refused_and_not_cut(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "memory.db", user="ada") as ledger:
        assert ledger.recall("tea", limit=500).items == ()
        for wrong in (501, -1, 10**400, True):
            with pytest.raises(RejectedError):
                ledger.recall("tea", limit=wrong)


def test_the_past_has_each_part_that_a_read_needs_and_no_part_that_writes(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "memory.db", user="ada", model=lambda request: "") as ledger:
        live, past = probe.inside(ledger), probe.inside(ledger.at(1))
        (reading,) = {type(live).__base__} & {type(past).__base__}
        shared = {name for name in (*dir(reading), *reading.__annotations__) if not name.startswith("_")}
        assert {name for name in shared if not (hasattr(live, name) and hasattr(past, name))} == set()
        assert probe.model(ledger) is not None and past.parts.get(MODEL) is None
        writing = {"close", "clock", "random", "scanners", "store", "writer"}
        assert (
            {name for name in writing if not hasattr(live, name)}
            == {name for name in writing if hasattr(past, name)}
            == set()
        )


def test_a_write_through_a_session_of_the_past_says_that_it_is_read_only(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "memory.db", user="ada") as ledger:
        ledger.session("trip").append("user", "The hotel is in Porto.")
        past = ledger.at(ledger.position).session("trip")
        assert [message.text for message in past.messages()] == ["The hotel is in Porto."]
        with pytest.raises(AttributeError, match="append"):
            past.append("user", "No.")  # type: ignore[attr-defined]
        with pytest.raises(ReadOnlyError, match="read-only"):
            past.window(1_000, receipt=True)
        with pytest.raises(ReadOnlyError, match="call it on a session of the ledger itself"):
            _ = probe.session(past).writer
