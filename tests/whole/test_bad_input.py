"""Whatever comes in: a typed error or an exact round trip, and the ledger stays whole."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import probe
import pytest
from absence import absent

from ledger import (
    ConflictError,
    DamagedError,
    Ledger,
    LedgerError,
    ModelError,
    NotFoundError,
    RejectedError,
    StorageError,
)
from ledger.erasure.plan import NothingLeft

STRANGE = [
    "NUL \0 inside",
    "\0",
    "bidi \u202eabc\u202c \u2066x\u2069",
    "emoji \U0001f600\U0001f468\u200d\U0001f469\u200d\U0001f467 and flags \U0001f1f3\U0001f1f4",
    "cafe\u0301 is not caf\u00e9",
    "%_ ' \" \\ ; DROP TABLE memories; -- */",
    "line\r\nbreaks\u2028and\u2029more\x85",
    "\ufeffbyte order mark",
    "x" * 100_000,
    "ß ſ İ ı ǅ ﬃ",
    '{"looks": "like JSON"}',
]


@pytest.mark.parametrize("text", STRANGE)
def test_strange_texts_come_back_exactly(ledger: Ledger, text: str) -> None:
    short = text[:200]
    ledger.policy.set(threats="off")  # a scanner may not like some of them, and that is not what this is about
    turn = ledger.bind(actor=short).capture(text, text, summary=text, context={"x": text}, client=short, agent=short)
    found = ledger.interactions.get(turn.id)
    assert (found.prompt, found.response, found.summary, found.context) == (text, text, text, {"x": text})
    assert (found.client, found.agent) == (short, short)
    ledger.bind(user=short).policy.set(threats="off")
    fact = ledger.bind(user=short).remember(text, entities=[short], project=short, session=short, idempotency_key=short)
    again = ledger.bind(user=short).memories.get(fact.id)
    assert (again.content, again.entities, again.project, again.user) == (text, (short,), short, short)
    ledger.bind(user=short).recall(text)
    ledger.bind(user=short).retract(fact.id, reason=short)


BAD: dict[str, Callable[[Ledger, str], Any]] = {
    "blank prompt": lambda g, id: g.capture(" \n"),
    "prompt of the wrong kind": lambda g, id: g.capture(None),  # type: ignore[arg-type]
    "bytes": lambda g, id: g.remember(b"tea"),  # type: ignore[arg-type]
    "blank content": lambda g, id: g.remember("\u2003"),
    "blank proposal": lambda g, id: g.propose(""),
    "blank revision": lambda g, id: g.revise(id, " "),
    "blank successor": lambda g, id: g.supersede(id, ""),
    "blank edit": lambda g, id: g.promote(id, content=" "),
    "unknown id": lambda g, id: g.promote("m_0000000000000000"),
    "blank id": lambda g, id: g.retract(""),
    "percent": lambda g, id: g.retract("m_%"),
    "underscores": lambda g, id: g.retract("m__"),
    "another kind": lambda g, id: g.retract("i_0000000000000000"),
    "no text for an id": lambda g, id: g.retract(5),  # type: ignore[arg-type]
    "a surrogate for an id": lambda g, id: g.retract("m_\ud800"),
    "a surrogate for an id, with a key": lambda g, id: g.retract("m_\ud800", idempotency_key="k"),
    "a huge number for an id, with a key": lambda g, id: g.retract(2**70, idempotency_key="k"),  # type: ignore[arg-type]
    "ambiguous prefix": lambda g, id: g.retract("m_"),
    "surrogate": lambda g, id: g.remember("tea \ud800"),
    "surrogate in a response": lambda g, id: g.capture("?", "\udfff"),
    "surrogate in a reason": lambda g, id: g.retract(id, reason="\ud800"),
    "surrogate in a user": lambda g, id: g.bind(user="\ud800").remember("tea"),
    "surrogate in a project": lambda g, id: g.remember("tea", project="\ud800"),
    "surrogate in a pack": lambda g, id: g.capture("?", context={"\ud800": 1}),
    "content above its limit": lambda g, id: g.remember("x" * (256 * 1024 + 1)),
    "a mebibyte and a byte": lambda g, id: g.remember("x" * (1024 * 1024 + 1)),
    "revision above its limit": lambda g, id: g.revise(id, "x" * (256 * 1024 + 1)),
    "an event above a mebibyte": lambda g, id: g.remember("\0" * (256 * 1024)),
    "a prompt above ten mebibytes": lambda g, id: g.capture("x" * (10 * 1024 * 1024 + 1)),
    "a long name": lambda g, id: g.remember("tea", project="x" * 1025),
    "a long reason": lambda g, id: g.retract(id, reason="x" * (16 * 1024 + 1)),
    "a long list": lambda g, id: g.remember("tea", entities=[f"e{n}" for n in range(2_001)]),
    "eleven tags": lambda g, id: g.remember("tea", tags=[f"t{n}" for n in range(11)]),
    "eleven tags in two goes": lambda g, id: g.memories.tag(id, add=[f"t{n}" for n in range(10)]),
    "blank tag": lambda g, id: g.memories.tag(id, add=[" "]),
    "a number for a tag": lambda g, id: g.memories.tag(id, add=[5]),  # type: ignore[list-item]
    "a number for tags": lambda g, id: g.remember("tea", tags=5),  # type: ignore[arg-type]
    "a number for entities": lambda g, id: g.supersede(id, "tea", entities=5),  # type: ignore[arg-type]
    "deep JSON": lambda g, id: g.capture("?", context=deep(65)),
    "very deep JSON": lambda g, id: g.capture("?", context=deep(100_000)),
    "NaN in JSON": lambda g, id: g.capture("?", context={"x": float("nan")}),
    "2^70 in JSON": lambda g, id: g.capture("?", context={"x": [2**70]}),
    "a set in JSON": lambda g, id: g.capture("?", context={"x": {1}}),
    "NaN": lambda g, id: g.remember("tea", confidence=float("nan")),
    "infinity": lambda g, id: g.memories.set_confidence(id, float("inf")),
    "2^70": lambda g, id: g.memories.set_confidence(id, 2**70),
    "above one": lambda g, id: g.remember("tea", confidence=1.000001),
    "below zero": lambda g, id: g.propose("tea", confidence=-0.000001),
    "a text for a number": lambda g, id: g.remember("tea", confidence="1"),  # type: ignore[arg-type]
    "true for a number": lambda g, id: g.remember("tea", confidence=True),
    "negative delta": lambda g, id: g.reinforce(id, amount=-0.1),
    "promote what is retracted": lambda g, id: g.promote(g.retract(id).id),
    "reject what is active": lambda g, id: g.reject(id),
    "no word for a kind": lambda g, id: g.remember("tea", kind="Bad Kind"),
    "no text for a kind": lambda g, id: g.remember("tea", kind=[]),  # type: ignore[arg-type]
    "no such channel": lambda g, id: g.remember("tea", channel="radio"),
    "no text for a user": lambda g, id: g.bind(user=5).remember("tea"),  # type: ignore[typeddict-item]
    "no text for an actor": lambda g, id: g.bind(actor=5).remember("tea"),
    "no text for a project": lambda g, id: g.remember("tea", project=5),  # type: ignore[arg-type]
    "no text for a session": lambda g, id: g.capture("?", session=["s"]),  # type: ignore[arg-type]
    "no text for a reason": lambda g, id: g.retract(id, reason=["because"]),  # type: ignore[arg-type]
    "no text for an adjustment's reason": lambda g, id: g.memories.set_confidence(id, 0.3, reason=5),  # type: ignore[arg-type]
    "no text for a validity's reason": lambda g, id: g.memories.set_validity(
        id, valid_from=None, valid_to=None, reason=5
    ),  # type: ignore[arg-type]
    "no text for an undo's reason": lambda g, id: g.undo(2, reason=5),  # type: ignore[arg-type]
    "no truth for reinforce": lambda g, id: g.capture("?", "!", reinforce="no"),  # type: ignore[arg-type]
    "no time": lambda g, id: g.capture("?", occurred_at="yesterday"),
    "no day": lambda g, id: g.capture("?", occurred_at="2026-02-30"),
    "a number for a time": lambda g, id: g.remember("tea", valid_from=5),  # type: ignore[arg-type]
    "before the year one": lambda g, id: g.capture("?", occurred_at="0001-01-01T00:00:00+01:00"),
    "after the last year": lambda g, id: g.remember("tea", valid_to="9999-12-31"),
    "ends before it begins": lambda g, id: g.remember("tea", valid_from="2026-01-02", valid_to="2026-01-01"),
    "ended before now": lambda g, id: g.remember("tea", valid_to="2020-01-01"),
    "successor that ended before now": lambda g, id: g.supersede(id, "tea", valid_to="2020-01-01"),
    "no validity": lambda g, id: g.memories.set_validity(id, valid_from="2026-01-02", valid_to="2026-01-01"),
    "a source that is no id": lambda g, id: g.remember("tea", sources=("somebody said",)),
    "a source that is not there": lambda g, id: g.remember("tea", sources=("i_0000000000000000",)),
    "two sources for one": lambda g, id: g.reinforce(id, source=""),
    "no parameter": lambda g, id: g.policy.set(speed=1),
    "no matcher": lambda g, id: g.policy.set(matcher=["stems/6"]),
    "NaN for a gain": lambda g, id: g.policy.set(gain=float("nan")),
    "no number of matches": lambda g, id: g.policy.set(max_matches=2**70),
    "no category": lambda g, id: g.projects.set_state("p", "mood", "k", "v"),
    "blank state": lambda g, id: g.projects.set_state("p", "status", " ", "v"),
    "state by a tool": lambda g, id: g.projects.set_state("p", "status", "k", "v", channel="tool"),
    "state by a policy": lambda g, id: g.bind(actor="policy:extraction").projects.set_state("p", "status", "k", "v"),
    "alias of nothing": lambda g, id: g.projects.add_alias("nothing", "n"),
    "blank project": lambda g, id: g.projects.add(" "),
    "file that is not there": lambda g, id: g.interactions.import_file("/nonexistent/turns.jsonl"),
    "directory for a file": lambda g, id: g.interactions.import_file("/"),
    "no time to judge by": lambda g, id: g.jobs.run(now="soon"),
    "rebuild in a batch": lambda g, id: in_batch(g),
}


def deep(levels: int) -> Any:
    value: Any = []
    for _ in range(levels):
        value = [value]
    return value


def in_batch(ledger: Ledger) -> None:
    with ledger.batch():
        probe.rebuild(ledger)


@pytest.mark.parametrize("name", BAD)
def test_a_bad_write_is_refused_by_a_typed_error_and_leaves_at_most_its_refusal(ledger: Ledger, name: str) -> None:
    fact, other = ledger.remember("Tea is in the tin.", tags=["kitchen"]), ledger.remember("Milk is in the jug.")
    before = ledger.position
    with pytest.raises(LedgerError):
        BAD[name](ledger, fact.id)
    left = [each.type for each in ledger.history.audit(limit=500) if each.position > before]
    assert set(left) <= {"WriteRefused"} | ({"MemoryRetracted"} if "retracted" in name else set())
    assert len(left) <= 2
    assert "x" * 50 not in str([each.data for each in ledger.history.audit(limit=3)])
    assert ledger.memories.tag(other.id, add=["fine"]).tags == ("fine",)


READS: dict[str, Callable[[Ledger], Any]] = {
    "interactions of a number": lambda g: g.interactions.list(limit="5"),  # type: ignore[arg-type]
    "interactions since never": lambda g: g.interactions.list(since="never"),
    "interactions of a surrogate": lambda g: g.interactions.list(client="\ud800"),
    "interactions of a project that is no text": lambda g: g.interactions.list(project=5),  # type: ignore[arg-type]
    "interactions of a project's surrogate": lambda g: g.interactions.list(project="\ud800"),
    "memories of no status": lambda g: g.memories.list(statuses=("happy",)),
    "memories of NaN": lambda g: g.memories.list(min_confidence=float("nan")),
    "memories of a surrogate": lambda g: g.memories.list(tags=("\ud800",)),
    "memories of a kind of surrogate": lambda g: g.memories.list(kinds=("\ud800",)),
    "memories of a status that is no text": lambda g: g.memories.list(statuses=5),  # type: ignore[arg-type]
    "memories of kinds that are no texts": lambda g: g.memories.list(kinds=[5]),  # type: ignore[list-item]
    "memories of a kind that is none": lambda g: g.memories.list(kinds=None),  # type: ignore[arg-type]
    "documents of a status that is no text": lambda g: g.documents.list(statuses=5),  # type: ignore[arg-type]
    "what if a number were the policy": lambda g: g.history.what_if(policy=5),  # type: ignore[arg-type]
    "what if two names, one no text, were tried": lambda g: g.history.what_if(policy={"a": 1, 5: 2}),  # type: ignore[dict-item]
    "memories of a user that is no text": lambda g: g.bind(user=5).memories.list(),  # type: ignore[arg-type]
    "recall of no text": lambda g: g.recall(None),  # type: ignore[arg-type]
    "recall of a surrogate": lambda g: g.recall("\ud800"),
    "recall with a negative budget": lambda g: g.recall("tea", budget=-1, unit="chars"),
    "recall of NaN": lambda g: g.recall("tea", limit=float("nan")),  # type: ignore[arg-type]
    "audit of a surrogate": lambda g: g.history.audit(actor="\ud800"),
    "audit since 5.5": lambda g: g.history.audit(since=5.5),  # type: ignore[arg-type]
    "state of no category": lambda g: g.projects.state("p", category="mood"),
    "a backwards fade": lambda g: g.memories.list()[0].effective_confidence("soon"),
}


@pytest.mark.parametrize("name", READS)
def test_a_bad_question_is_refused_by_a_typed_error(ledger: Ledger, name: str) -> None:
    ledger.remember("Tea is in the tin.", project="p")
    with pytest.raises(RejectedError):
        READS[name](ledger)


@pytest.mark.parametrize(
    "id", [None, 5, "", " ", "m", "m_", "%", "m_%", "_", "\ud800", "m_\ud800", "m_" + "0" * 100, b"m_", 2**70, ["m_"]]
)
def test_an_invalid_id_finds_nothing(ledger: Ledger, id: Any) -> None:
    ledger.remember("Tea is in the tin."), ledger.remember("Milk is in the jug.")
    for read in (ledger.memories.get, ledger.interactions.get, ledger.why, ledger.history.events):
        assert absent(read, id)
    assert absent(ledger.memories.confidence, id)
    if isinstance(id, str) and id != "\ud800" and "\ud800" not in id and id.strip():
        assert ledger.history.audit(subject=id) == []


@pytest.mark.parametrize(
    "query", ["", " ", "AND", '"', "a OR", "NEAR(", "tea*", "content:tea", "-tea", "^", "\0", "(" * 1000, "%", "the"]
)
def test_a_search_takes_any_text(ledger: Ledger, query: str) -> None:
    ledger.remember("Tea is in the tin.")
    ledger.recall(query)


def test_a_refusal_inside_a_batch_leaves_the_rest_whole(ledger: Ledger) -> None:
    with ledger.batch():
        kept = ledger.remember("Tea is in the tin.", idempotency_key="k")
        for wrong in (
            lambda: ledger.promote("m_0000000000000000"),
            lambda: ledger.reject(kept.id),
            lambda: ledger.remember("Something else.", idempotency_key="k"),
            lambda: ledger.remember("\0" * (256 * 1024)),
        ):
            with pytest.raises(LedgerError):
                wrong()
        ledger.memories.tag(kept.id, add=["kitchen"])
    assert [each.tags for each in ledger.memories.list()] == [("kitchen",)]
    assert [each.rule for each in ledger.guards.refusals()] == ["size", "transition"]


def test_a_batch_that_an_exception_leaves_is_as_if_it_had_not_been(ledger: Ledger) -> None:
    before = ledger.position
    with pytest.raises(ZeroDivisionError), ledger.batch():
        ledger.remember("Tea is in the tin.", project="kitchen")
        raise ZeroDivisionError
    assert (ledger.position, ledger.memories.list(), ledger.projects.list()) == (before, [], [])
    assert ledger.remember("Tea is in the tin.", project="kitchen").project == "kitchen"


def test_an_equal_refusal_is_recorded_once(ledger: Ledger) -> None:
    fact = ledger.remember("Tea is in the tin.")
    for actor in ("ada", "ada", "bob"):
        with pytest.raises(RejectedError):
            ledger.bind(actor=actor).reject(fact.id)
    assert [(each.rule, each.command, each.actor) for each in ledger.guards.refusals()] == [
        ("transition", "reject", "bob"),
        ("transition", "reject", "ada"),
    ]


# --- the file itself -------------------------------------------------------------------------------------------------


def test_a_directory_is_no_ledger(tmp_path: Path) -> None:
    with pytest.raises(LedgerError):
        Ledger.open(tmp_path)


@pytest.mark.parametrize("content", [b"hello", b"SQLite format 3\0 but not really", os.urandom(5000), b"\0" * 4096])
def test_a_foreign_file_is_left_as_it_is(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "memory.db"
    path.write_bytes(content)
    with pytest.raises(LedgerError):
        Ledger.open(path)
    assert path.read_bytes() == content


def test_where_nothing_is_nothing_is_opened_unless_it_may_be_made(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        Ledger.open(tmp_path / "memory.db", create=False)
    with pytest.raises(LedgerError):
        Ledger.open(tmp_path / "nowhere" / "memory.db")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "given", [{"settings": 5}, {"settings": {"user": "ada"}}, {"clock": 5}, {"random": "dice"}], ids=str
)
def test_what_a_ledger_is_opened_with_is_looked_at_before_anything_is_made(
    tmp_path: Path, given: dict[str, Any]
) -> None:
    with pytest.raises(RejectedError, match=next(iter(given))):
        Ledger.open(tmp_path / "memory.db", **given)
    assert list(tmp_path.iterdir()) == []


def test_a_clock_that_gives_no_time_is_told_so(tmp_path: Path) -> None:
    times: list[Any] = []
    with Ledger.open(tmp_path / "memory.db", clock=lambda: times.pop() if times else datetime.now(UTC)) as ledger:
        times.append(5)
        with pytest.raises(RejectedError, match="clock"):
            ledger.remember("Tea is in the tin.")
        assert ledger.memories.list() == [] and ledger.remember("Tea is in the tin.").content


def test_a_ledger_opened_for_reading_takes_no_command(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "memory.db") as ledger:
        fact = ledger.remember("Tea is in the tin.")
    with Ledger.open(tmp_path / "memory.db", readonly=True) as reader:
        assert [each.id for each in reader.memories.list()] == [fact.id]
        for command in (
            lambda: reader.retract(fact.id),
            reader.maintenance.rebuild,
            lambda: reader.undo(2),
            lambda: reader.capture("?"),
        ):
            with pytest.raises(RejectedError, match="readonly"):
                command()


def test_a_closed_ledger_says_so(tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "memory.db")
    ledger.close()
    ledger.close()
    for call in (ledger.memories.list, lambda: ledger.remember("tea"), ledger.proof.digest, lambda: ledger.position):
        with pytest.raises(LedgerError, match="closed"):
            call()


def test_the_family_of_errors() -> None:
    assert all(issubclass(kind, LedgerError) for kind in (RejectedError, NotFoundError, ConflictError, StorageError))


@pytest.mark.parametrize(
    "error",
    [
        RejectedError("It is too long.", rule="size", limit=2),
        DamagedError("memories", 3, "its status is none"),
        ModelError("no answer", kind="TimeoutError"),
        NothingLeft(),
    ],
    ids=lambda each: type(each).__name__,
)
def test_an_error_comes_out_of_another_process_as_it_was(error: LedgerError) -> None:
    other = pickle.loads(pickle.dumps(error))
    assert (type(other), str(other), vars(other)) == (type(error), str(error), vars(error))
