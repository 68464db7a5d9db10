"""Grep over a session: what the pattern says is what is found, in this session unless asked for all, and counted whole."""

from __future__ import annotations

from datetime import timedelta

import probe
import pytest
from conftest import Clock, folded_from_zero
from summarizing import invalidate, summarise, tie

from ledger import Ledger
from ledger.domain.errors import RejectedError
from ledger.sessions import grepping
from ledger.sessions.search_answers import GrepResult
from ledger.types import Event


def shown(found: GrepResult) -> list[str]:
    return [hit.snippet for hit in found]


def said(ledger: Ledger, *texts: str, name: str = "monday", user: str | None = None) -> list[int]:
    session = ledger.bind(user=user).session(name)
    return [session.append("user", text).position for text in texts]


# --- which session ---------------------------------------------------------------------------------------------------


def test_grep_searches_only_its_session_unless_all_are_requested(ledger: Ledger) -> None:
    said(ledger, "The gearbox rattles.")
    said(ledger, "The gearbox hums.", name="tuesday")
    session = ledger.session("monday")
    assert shown(session.grep("gearbox")) == ["The gearbox rattles."]
    found = ledger.sessions.grep("gearbox")
    assert [(hit.session, hit.snippet) for hit in found] == [
        ("tuesday", "The gearbox hums."),
        ("monday", "The gearbox rattles."),
    ]


@pytest.mark.parametrize("pattern", ["canary", "%-%", "canary NOT dog", '"金丝雀"', "(canary OR 金丝雀) NOT dog"])
def test_grep_finds_no_text_of_another_user(ledger: Ledger, pattern: str) -> None:
    for user in ("ana", "ben", "eve"):
        positions = said(ledger, f"canary-{user} canary-{user} 金丝雀", f"x {user}", user=user)
        span = [(positions[0], positions[1])]
        summarise(ledger, ledger.bind(user=user).session("monday"), f"summed canary-{user} 金丝雀", span)
    ledger.bind(user="eve").session("monday").clear()
    for user in ("ana", "ben", "eve"):
        for everywhere in (False, True):
            asked = ledger.bind(user=user)
            place = asked.sessions if everywhere else asked.session("monday")
            found = place.grep(pattern, include_hidden=True)
            assert found.total == 2 and all(user in hit.snippet for hit in found)
    assert ledger.bind(user="ana").sessions.grep("canary-ben") == ()


# --- what a pattern says ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "numbers"),
    [
        ("coffee machine", [2, 0]),
        ("coffee AND machine", [2, 0]),
        ("coffee OR tea", [3, 2, 1, 0]),
        ("coffee NOT machine", [1]),
        ("mach*", [2, 0]),
        ("%achin%", [2, 0]),
        ('"coffee machine"', [0]),
        ("(coffee OR tea) green", [3]),
        ("machines", [2, 0]),
        ("and", [3]),
        ("nothing", []),
    ],
)
def test_grep_understands_and_or_not_and_quotes(ledger: Ledger, pattern: str, numbers: list[int]) -> None:
    texts = ("A coffee machine.", "Coffee, black.", "The machine that makes coffee.", "Tea, green and hot.")
    said(ledger, *texts)
    found = ledger.session("monday").grep(pattern)
    assert shown(found) == [texts[number] for number in numbers]
    assert (found.total, found.searched, found.is_exact) == (len(numbers), 4, True)


@pytest.mark.parametrize("pattern", ["go", "C", "咖啡", "啡", '"groß"', "42", "%->%", "%%%", "%_%", "%a%"])
def test_any_length_and_script_is_found_in_messages_and_summaries(ledger: Ledger, pattern: str) -> None:
    (first, last) = said(ledger, "Let us go: C -> 我爱喝咖啡 groß 42% a_case", "nix")
    summarise(ledger, ledger.session("monday"), "They go: C -> 我爱喝咖啡 groß 42% a_case", [(first, last)])
    assert [hit.kind for hit in ledger.session("monday").grep(pattern)] == ["summary", "message"]


def test_a_bad_pattern_or_bound_is_refused(ledger: Ledger) -> None:
    session = ledger.session("monday")
    wrong = (
        {"scope": "all"},
        {"role": "boss"},
        {"role": "user", "scope": "summary"},
        {"since": "7 years"},
    )
    for each in (*wrong, {"since": "soon"}):
        with pytest.raises(RejectedError):
            session.grep("tea", **each)  # type: ignore[arg-type]
    for pattern in ("", " ", '"', "NOT tea", "(tea", "->", "tea OR"):
        with pytest.raises(RejectedError, match=r"beginning.*AND, OR, NOT.*%any text%"):
            session.grep(pattern)


def test_the_words_of_a_long_message_may_stand_anywhere_in_it(ledger: Ledger) -> None:
    filler = "Nothing to see here, move along. " * 60
    long = f"First alpha beta. {filler} In the middle gamma. {filler} last omega."
    said(ledger, "omega alone", long, "alpha alone")
    session = ledger.session("monday")
    for pattern in ("alpha omega", '"alpha beta" gamma omega', "alpha NOT nothere gamma", '"gamma. Nothing"'):
        assert session.grep(pattern).total == 1, pattern
    assert session.grep("alpha NOT omega").total == 1
    for at in range(0, len(long) - 40, 37):  # wherever a passage ends
        words = long[at : at + 40].split()[1:-1]
        if words:
            assert session.grep('"' + " ".join(words) + '"').total == 1


def test_a_tool_is_found_by_its_name_arguments_and_result_together_with_the_text(ledger: Ledger) -> None:
    session = ledger.session("monday")
    call = {"type": "tool_use", "id": "c1", "name": "weather", "arguments": {"city": "Ljubljana", "days": [1, 2]}}
    asked = session.append("assistant", "Let me look.", parts=[call]).position
    result = [
        {"type": "tool_result", "id": "c1", "text": "hail " * 400 + "at noon"},
        {"type": "text", "text": "so it is"},
    ]
    told = session.append("tool", parts=result).position
    assert [hit.position for hit in session.grep("weather Ljubljana look")] == [asked]
    for pattern in ("hail noon", '"so it is"', '"hail at noon" "so it"'):
        assert [(hit.position, hit.role) for hit in session.grep(pattern)] == [(told, "tool")]


def test_a_message_tied_to_a_captured_turn_is_found_by_the_words_of_the_turn(ledger: Ledger) -> None:
    said(ledger, "Something before")
    turn = ledger.capture("Which gearbox?", "The green gearbox.", session="monday")
    session = ledger.session("monday")
    assert session.grep("gearbox").total == 0, "a turn that is no message"
    tie(ledger, session, turn.id, "prompt", "user")
    tie(ledger, session, turn.id, "response", "assistant")
    for pattern in ("gearbox", '"gearbox"', "gear* OR nothing"):
        for everywhere in (False, True):
            hits = (ledger.sessions if everywhere else session).grep(pattern)
            assert [(hit.role, hit.snippet) for hit in hits] == [
                ("assistant", "The green gearbox."),
                ("user", "Which gearbox?"),
            ]
    session.truncate(1)
    assert shown(session.grep("gearbox")) == ["The green gearbox."]


# --- inside of words, and the best first -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("Request", "The handleRequest method fails."),
        ("Rechnung", "Die Rechnungsprüfung ist fertig."),
        ("prüfung", "Die Rechnungsprüfung ist fertig."),
        ("thentic fail", "Authentication failed twice."),
        ('"dle Request"', "handle Requests"),
        ("%thentic%", "Authentication failed twice."),
    ],
)
def test_words_that_no_text_has_are_found_inside_of_words(ledger: Ledger, pattern: str, text: str) -> None:
    said(ledger, text, "Nothing of the kind.")
    for found in (ledger.session("monday").grep(pattern), ledger.sessions.grep(pattern)):
        assert shown(found) == [text] and found.total == 1 and found.is_exact
        assert ("inside of longer words" in found.hint) is not pattern.startswith("%")
        assert all(found[0].snippet[first:last] for first, last in found[0].spans) and found[0].spans


def test_a_word_that_a_text_has_is_not_looked_for_inside_of_words(ledger: Ledger) -> None:
    said(ledger, "A day.", "Yesterday.")
    found = ledger.session("monday").grep("day")
    assert (shown(found), found.hint) == (["A day."], "")


@pytest.mark.parametrize("pattern", ["ay", "esterda*", "esterda OR urrow", "esterda NOT x", "(esterda)"])
def test_short_words_beginnings_and_operators_are_not_looked_for_inside_of_words(ledger: Ledger, pattern: str) -> None:
    said(ledger, "Yesterday it was a burrow.")
    assert ledger.session("monday").grep(pattern) == ()


def test_all_pages_of_what_is_found_inside_of_words_are_read(ledger: Ledger) -> None:
    texts = [f"Yesterday number {number}." for number in range(7)]
    said(ledger, *texts)
    for more in ({}, {"order": "relevance"}):
        assert shown(ledger.session("monday").grep("esterda", limit=2, **more).all()) == texts[::-1]
    assert shown(ledger.session("monday").grep("esterda", limit=2, oldest_first=True).all()) == texts


def test_a_text_inside_of_words_is_found_across_passages_and_in_what_is_old(ledger: Ledger) -> None:
    filler = "Nothing to see here, move along. " * 60
    long = f"{filler}The handleRequest method.{filler}"
    said(ledger, long, *(f"filler {number}" for number in range(100)))
    for at in range(0, len(long) - 30, 31):  # wherever a passage ends
        assert ledger.session("monday").grep(f"%{long[at : at + 30]}%").total == 1
    tool = ledger.session("monday").append("tool", "xgearboxx", tool_call_id="c1").position
    assert [hit.position for hit in ledger.session("monday").grep("%gearbox%")] == [tool]


def test_a_captured_turn_and_a_summary_are_found_inside_of_words(ledger: Ledger) -> None:
    session = ledger.session("monday")
    ledger.capture("Which xgearboxx?", "The yxgearboxxy.", session="monday", append=True)
    first, last = (message.position for message in session.messages())
    summarise(ledger, session, "About zgearboxz.", [(first, last)])
    assert shown(session.grep("%gearbox%")) == ["About zgearboxz.", "The yxgearboxxy.", "Which xgearboxx?"]
    assert shown(session.grep("%gearbox%", limit=1, oldest_first=True).all()) == [
        "Which xgearboxx?",
        "The yxgearboxxy.",
        "About zgearboxz.",
    ]


def test_by_relevance_the_best_come_first_and_equal_ones_newest_first(ledger: Ledger) -> None:
    filler = "Many other words stand in this text, and they make it long and less about it. " * 3
    texts = (f"One gearbox. {filler}", "gearbox gearbox", "A gearbox.", "A gearbox.", "nothing")
    said(ledger, *texts)
    session = ledger.session("monday")
    found = session.grep("gearbox", order="relevance", limit=2)
    positions = [message.position for message in session.messages()]
    assert [hit.position for hit in found.all()] == [positions[number] for number in (1, 3, 2, 0)]
    assert found.total == 4
    assert shown(ledger.sessions.grep("gearbox", order="relevance")) == shown(found.all())
    before = ledger.position
    session.clear()
    past = ledger.at(before).session("monday").grep("gearbox", order="relevance")
    assert [hit.position for hit in past] == [positions[number] for number in (1, 3, 2, 0)]


def test_relevance_ranks_words_alone(ledger: Ledger) -> None:
    said(ledger, "gearbox")
    for wrong in ({"pattern": "%ear%"}, {"pattern": "gearbox", "oldest_first": True}):
        with pytest.raises(RejectedError, match="relevance"):
            ledger.session("monday").grep(order="relevance", **wrong)  # type: ignore[arg-type]
    with pytest.raises(RejectedError, match="order"):
        ledger.session("monday").grep("gearbox", order="best")  # type: ignore[arg-type]


def test_an_erased_text_is_not_found_inside_of_words(ledger: Ledger) -> None:
    _, erased = said(ledger, "the handleRequest", "the sendRequest")
    ledger.erase(Event(erased))
    for pattern in ("%Request%", "Request"):
        assert shown(ledger.session("monday").grep(pattern, include_hidden=True)) == ["the handleRequest"]


# --- bounds ----------------------------------------------------------------------------------------------------------


def test_grep_is_limited_by_role_and_time(ledger: Ledger, clock: Clock) -> None:
    session = ledger.session("monday")
    for role, days in (("user", 100), ("assistant", 20), ("user", 5), ("user", 0.4)):
        session.append(role, f"tea {days:g}", occurred_at=clock() - timedelta(days=days))
    assert shown(session.grep("tea", role="assistant")) == ["tea 20"]
    assert [session.grep("tea", since=last).total for last in ("12h", "7d", "3w", "90d", "120d")] == [1, 2, 3, 3, 4]
    day = clock() - timedelta(days=20)
    assert shown(session.grep("tea", since=day, until=clock())) == ["tea 0.4", "tea 5", "tea 20"]
    assert shown(session.grep("tea", until=day)) == ["tea 100"]


def test_the_total_counts_beyond_the_limit_and_says_where_it_stopped(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    said(ledger, *(f"tea: number {number}" for number in range(150)))
    session = ledger.session("monday")
    for pattern in ("tea", "%:%"):
        found = session.grep(pattern, limit=3)
        assert shown(found) == ["tea: number 149", "tea: number 148", "tea: number 147"]
        assert (found.total, found.is_exact) == (150, True)
    for number in range(20):  # texts of several passages are read whole
        session.append("user", f"{number} " + "Nothing to see here, move along. " * 60)
    monkeypatch.setattr(grepping, "READ_ON", 10)
    found = session.grep("%see here%", limit=3)
    assert (found.total, found.is_exact, len(found)) == (10, False, 3)
    monkeypatch.setattr(grepping, "READ", 10)
    assert [session.grep(pattern).is_exact for pattern in ("tea", "%see here%")] == [True, False]
    assert "only 10 long texts" in session.grep("%@%").hint


def test_spans_are_where_the_snippet_has_it(ledger: Ledger) -> None:
    said(ledger, "Filler words. " * 100 + "Here the Gearbox is, and a GEARBOX. " + "More words. " * 100)
    (hit,) = ledger.session("monday").grep("gearbox")
    assert [hit.snippet[first:last] for first, last in hit.spans] == ["Gearbox", "GEARBOX"]
    assert hit.score == 2 and len(hit.snippet) <= grepping.SNIPPET_CHARS


# --- summaries -------------------------------------------------------------------------------------------------------


def test_a_summary_tells_its_true_depth_and_standing(ledger: Ledger) -> None:
    positions = said(ledger, *"abcd")
    session = ledger.session("monday")
    leaves = [summarise(ledger, session, f"gearbox {at}", [(positions[at], positions[at + 1])]) for at in (0, 2)]
    top = summarise(ledger, session, "gearbox above", of=leaves)
    found = session.grep("gearbox", scope="summary")
    assert [(hit.id, hit.depth, hit.summary_kind, hit.status) for hit in found] == [
        (top, 1, "condensed", "window"),
        (leaves[1], 0, "leaf", "under"),
        (leaves[0], 0, "leaf", "under"),
    ]
    assert (found.searched, session.grep("gearbox").searched, session.grep("gearbox", scope="message").total) == (
        3,
        7,
        0,
    )


def test_an_invalid_summary_is_found_only_with_what_is_hidden(ledger: Ledger) -> None:
    (first, last) = said(ledger, "a", "b")
    session = ledger.session("monday")
    invalidate(ledger, session, summarise(ledger, session, "gearbox", [(first, last)]))
    assert session.grep("gearbox") == ()
    assert [hit.status for hit in session.grep("gearbox", include_hidden=True)] == ["invalid"]


# --- hidden, undone, erased, as of -----------------------------------------------------------------------------------


def test_grep_finds_hidden_messages_on_request_and_marks_them(ledger: Ledger) -> None:
    said(ledger, "old gearbox", "new gearbox")
    session = ledger.session("monday")
    session.truncate(1)
    assert shown(session.grep("gearbox")) == ["new gearbox"]
    hits = session.grep("gearbox", include_hidden=True)
    assert [(hit.snippet, hit.hidden) for hit in hits] == [("new gearbox", ""), ("old gearbox", "truncate")]


def test_an_empty_result_says_where_else_to_look(ledger: Ledger, clock: Clock) -> None:
    session = ledger.session("monday")
    assert "nothing was said" in session.grep("tea").hint
    said(ledger, "old gearbox", "new clutch")
    said(ledger, "the saddle", name="tuesday")
    session.truncate(1)
    assert "include_hidden=True" in session.grep("gearbox").hint
    assert "sessions.grep" in session.grep("saddle").hint
    assert "scope, role and time" in session.grep("clutch", role="tool").hint
    assert "fewer words" in session.grep("handlebar").hint
    assert session.grep("clutch").hint == ""


def test_an_undone_or_erased_message_leaves_nothing_to_find(ledger: Ledger) -> None:
    _, erased, undone = said(ledger, "tea: one", "tea: two", "tea: three")
    session, before = ledger.session("monday"), ledger.position
    ledger.undo(undone)
    ledger.erase(Event(erased))
    for pattern in ("tea", "%:%"):
        assert shown(session.grep(pattern, include_hidden=True)) == ["tea: one"]
    assert shown(ledger.at(before).session("monday").grep("tea")) == ["tea: three", "tea: one"]
    with probe.read(ledger) as connection:
        rows = connection.execute("SELECT text FROM passages UNION ALL SELECT text FROM passages_were").fetchall()
    assert not any("two" in text for (text,) in rows)
    ledger.redo(undone)
    assert shown(session.grep("tea")) == ["tea: three", "tea: one"]
    probe.rebuild(ledger)
    assert ledger.proof.digest() == folded_from_zero(ledger)
    assert shown(session.grep("tea")) == ["tea: three", "tea: one"]


def test_grep_at_an_earlier_moment_finds_the_texts_of_that_moment(ledger: Ledger) -> None:
    positions = said(ledger, "tea: one", "tea: two", *("more: tea" for _ in range(80)))
    session = ledger.session("monday")
    session.clear()
    said(ledger, "tea: again")
    for pattern in ("tea", "%:%"):
        past = ledger.at(positions[1]).session("monday")
        assert shown(past.grep(pattern)) == ["tea: two", "tea: one"]
        assert past.grep(pattern).searched == 2
        assert ledger.at(positions[-1]).session("monday").grep(pattern).total == 82
        assert shown(session.grep(pattern)) == ["tea: again"]


def test_a_ledger_opened_to_read_finds_what_waits_for_the_index(ledger: Ledger) -> None:
    said(ledger, "tea one", "tea two")
    with Ledger.open(probe.store(ledger).path, readonly=True) as reader:
        assert shown(reader.session("monday").grep("tea one")) == ["tea one"]
