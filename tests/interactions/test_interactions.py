"""``ledger.interactions``: captured turns, their responses, and files of them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import probe
import pytest
from msgspec.structs import replace

from ledger import AmbiguousIdError, NotFoundError, RejectedError
from ledger.api import Ledger


@pytest.fixture
def ledger(tmp_path: Path):
    with Ledger.open(tmp_path / "memory.db", user="ada", actor="planner") as opened:
        yield opened


def test_a_listing_is_read_page_by_page_newest_first(ledger: Ledger) -> None:
    ids = [ledger.capture(f"Question {number}?").id for number in range(5)][::-1]
    first = ledger.interactions.list(limit=2)
    ledger.capture("Newer than the first page?")
    assert [each.id for each in first] == ids[:2]
    assert [each.id for each in ledger.interactions.list(limit=2, after=first.next)] == ids[2:4]
    assert [each.id for each in first.all()] == ids
    with pytest.raises(RejectedError, match="other filters"):
        ledger.interactions.list(client="cli", after=first.next)


def test_every_page_without_full_texts_keeps_prompt_and_summary(ledger: Ledger) -> None:
    for number in range(2):
        ledger.capture(f"Question {number}?", "A long answer.", summary=f"answer {number}", context={"shown": [1]})
    ledger.interactions.add_response(ledger.capture("Question 2?").id, "A long answer.", summary="answer 2")
    page = ledger.interactions.list(text=False, limit=1)
    assert [(turn.prompt, turn.summary, turn.response, turn.context) for turn in page.all()] == [
        (f"Question {number}?", f"answer {number}", None, None) for number in (2, 1, 0)
    ]
    assert page.next is not None and ledger.interactions.list(limit=1, after=page.next)[0].response == "A long answer."


def test_a_time_without_an_offset_is_refused_with_the_form_to_use(ledger: Ledger) -> None:
    for asked in ({"since": "2026-03-01 10:00:00"}, {"until": "2026-03-01 10:00:00"}):
        with pytest.raises(RejectedError, match="write 2026-03-01T10:00:00Z or 2026-03-01T10:00:00\\+01:00"):
            ledger.interactions.list(**asked)
    assert ledger.interactions.list(since="2026-03-01 10:00:00Z") == []


def test_a_page_of_a_thousand_entries_is_allowed(ledger: Ledger) -> None:
    with ledger.batch():
        for number in range(1_003):
            ledger.capture(f"Question {number}?", reinforce=False)
    page = ledger.interactions.list(limit=1_000)
    assert len(page) == 1_000 and page.next is not None
    assert len(list(page.all())) == 1_003


def test_filters_never_raise_for_what_is_not_known(ledger: Ledger) -> None:
    one = ledger.capture("One?", project="atlas", session="monday", client="cli")
    two = ledger.capture("Two?")
    shown = lambda **filters: [each.id for each in ledger.interactions.list(**filters)]  # noqa: E731
    assert shown(project="atlas") == shown(session="monday") == shown(client="cli") == [one.id]
    assert shown(project="") == [two.id]
    assert shown(project="nobody") == shown(session="nobody") == shown(client="nobody") == []
    assert shown(since="1h") == [two.id, one.id] and shown(until="1h") == []
    assert shown(since=datetime.now(UTC).date()) == [two.id, one.id]
    for wrong in ("2026-01-01T10:00:00", "yesterday", "7y"):
        with pytest.raises(RejectedError):
            shown(since=wrong)


def test_a_pack_is_the_context_of_the_turn_that_it_was_made_for(ledger: Ledger) -> None:
    ledger.remember("The user likes tea.", tags=["drinks"])
    for pack in (ledger.recall("tea", receipt=True, explain=True), ledger.profile()):
        turn = ledger.capture("What do I like?", "Tea.", context=pack)
        assert turn.context == pack.to_dict()
        assert ledger.interactions.get(turn.id).context["items"] == [each.to_dict() for each in pack.items]


def test_get_gives_the_texts_or_raises(ledger: Ledger) -> None:
    turn = ledger.capture("Tea?", "Yes.", summary="yes", session="monday", context={"shown": [1]})
    found = ledger.interactions.get(turn.id)
    assert (found.prompt, found.response, found.summary, found.session, found.context) == (
        "Tea?", "Yes.", "yes", "monday", {"shown": [1]},
    )  # fmt: skip
    assert found.to_dict()["context"] == {"shown": [1]}
    with pytest.raises(NotFoundError):
        ledger.interactions.get("i_0000000000000000")
    with pytest.raises(NotFoundError):
        ledger.bind(user="bob").interactions.get(turn.id)
    assert ledger.bind(user="bob").interactions.list() == []
    for number in range(40):
        ledger.capture(f"Question {number}?")
    ids = sorted(each.id for each in ledger.interactions.list())
    shared = next(one[:3] for one, other in pairwise(ids) if one[:3] == other[:3])
    with pytest.raises(AmbiguousIdError):
        ledger.interactions.get(shared)


def test_a_response_may_come_later_and_only_once(ledger: Ledger) -> None:
    turn = ledger.capture("Tea?")
    done = ledger.interactions.add_response(turn.id, "Yes, green.", summary="green", chunks_used=["c_1"])
    assert (done.response, done.summary, done.chunks_used) == ("Yes, green.", "green", ("c_1",))
    with pytest.raises(RejectedError, match="already has a response"):
        ledger.interactions.add_response(turn.id, "No.")
    with pytest.raises(RejectedError, match="takes several"):
        ledger.interactions.add_response(turn.id, "No.", memories_used="m_1")
    with pytest.raises(NotFoundError):
        ledger.bind(user="bob").interactions.add_response(turn.id, "No.")


def test_reinforce_counts_what_a_response_restates(ledger: Ledger) -> None:
    turn = ledger.capture("What does Ada drink?", "Ada drinks green tea every single morning.")
    fact = ledger.remember("Ada drinks green tea every single morning.", kind="preference", confidence=0.5)
    report = ledger.interactions.reinforce(turn.id)
    assert [(id, before) for id, before, _ in report.reinforced] == [(fact.id, 0.5)]
    with pytest.raises(RejectedError, match="not the id of an interaction"):
        ledger.interactions.reinforce(fact.id)


def test_a_repeated_reinforcement_answers_with_what_was_recorded(ledger: Ledger) -> None:
    ledger.remember("Ada drinks green tea every single morning.", kind="preference", confidence=0.5)
    turn = ledger.capture("What does Ada drink?", "Ada drinks green tea every single morning.", reinforce=False)
    first, position = ledger.interactions.reinforce(turn.id), ledger.position
    again = ledger.interactions.reinforce(turn.id)
    assert len(first.reinforced) == 1 and not first.replayed
    assert again == replace(first, replayed=True) and ledger.position == position
    ledger.undo(position)
    assert ledger.interactions.reinforce(turn.id) == first, "undone, it counts again"


def test_a_pack_goes_through_json_into_a_capture(ledger: Ledger) -> None:
    ledger.remember("Ada drinks green tea.", kind="preference", tags=["drinks"])
    pack = ledger.recall("tea", explain=True)
    plain = pack.to_dict()
    assert json.loads(json.dumps(plain)) == plain, "lists, no tuples"
    given = [ledger.capture("Tea?", "Yes.", context=each) for each in (plain, pack)]
    assert [ledger.interactions.get(each.id).context for each in given] == [plain, plain]


def test_a_past_ledger_can_only_be_read(ledger: Ledger) -> None:
    turn = ledger.capture("Tea?")
    then = ledger.at(ledger.position)
    ledger.interactions.add_response(turn.id, "Yes.")
    ledger.capture("Coffee?")
    assert then.interactions.get(turn.id).response == ""
    assert [each.id for each in then.interactions.list()] == [turn.id]
    assert not hasattr(then.interactions, "add_response")


def test_a_file_is_imported_once_and_a_dry_run_writes_nothing(ledger: Ledger, tmp_path: Path) -> None:
    file = tmp_path / "turns.jsonl"
    file.write_text(
        "".join(json.dumps({"prompt": f"Question {n}?"}) + "\n" for n in range(3)) + "{}\n", encoding="utf-8"
    )
    before = ledger.position
    tried = ledger.interactions.import_file(file, dry_run=True)
    assert (tried.dry_run, tried.captured, tried.known, len(tried.errors), ledger.position) == (True, 3, 0, 1, before)
    done = ledger.interactions.import_file(file, project="atlas")
    assert (done.captured, done.known, [line for line, _ in done.errors]) == (3, 0, [4])
    assert [each.project for each in ledger.interactions.list()] == ["atlas"] * 3
    again = ledger.interactions.import_file(file, project="atlas", dry_run=True)
    assert (again.captured, again.known) == (0, 3)
    with pytest.raises(RejectedError, match="line 4"):
        ledger.interactions.import_file(file, strict=True)
    with pytest.raises(NotFoundError):
        ledger.interactions.import_file(tmp_path / "none.jsonl")


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ({"prompt": 5}, "prompt is a text, and 5 is not"),
        ({"response": "Yes."}, "the line has no prompt"),
        ({"prompt": "Tea?", "project": ["x"]}, "project is a text, and ['x'] is not"),
        ({"prompt": "Tea?", "memories_used": ["m_", 1]}, "memories_used is a list of texts, and ['m_', 1] is not"),
        ({"prompt": "Tea?", "metadata": "ticket"}, "metadata is a JSON object, and 'ticket' is not"),
        ({"prompt": "Tea?", "line_id": None, "response": None}, "response is a text, and None is not"),
    ],
)
def test_a_field_of_a_wrong_type_is_named_with_what_it_is(
    ledger: Ledger, tmp_path: Path, line: dict[str, Any], why: str
) -> None:
    file = tmp_path / "turns.jsonl"
    file.write_text(json.dumps({"prompt": "Milk?"}) + "\n" + json.dumps(line) + "\n", encoding="utf-8")
    assert ledger.interactions.import_file(file, dry_run=True).errors == ((2, why),)
    with pytest.raises(RejectedError) as refused:
        ledger.interactions.import_file(file, strict=True)
    assert str(refused.value).startswith(f"line 2 of turns.jsonl: {why};")


def test_a_dry_run_warns_of_the_unknown_memories_that_the_import_warns_of(ledger: Ledger, tmp_path: Path) -> None:
    tea, milk = ledger.remember("Tea is in the tin."), ledger.remember("Milk is in the jug.")
    file = tmp_path / "turns.jsonl"
    used = [[tea.id, milk.id[:8]], [], ["m_abcdefghjkmnpqrs", "m_", tea.id]]
    file.write_text(
        "".join(json.dumps({"prompt": "Tea?", "memories_used": each}) + "\n" for each in used), encoding="utf-8"
    )
    tried = ledger.interactions.import_file(file, dry_run=True)
    assert [line for line, _ in tried.warnings] == [3, 3]
    assert tried.warnings == ledger.interactions.import_file(file).warnings


def test_a_long_summary_lies_outside_of_the_log_and_is_erased_with_the_turn(ledger: Ledger) -> None:
    long, other = ("".join(f"{word} {n}.\n" for n in range(30_000)) for word in ("Spoonful", "Glass"))
    turn = ledger.capture("Tea?", "Yes.", summary=long)
    later = ledger.capture("Milk?")
    ledger.interactions.add_response(later.id, "Yes.", summary=other)
    assert [ledger.interactions.get(each.id).summary for each in (turn, later)] == [long, other]
    with probe.read(ledger) as connection:
        assert connection.execute("SELECT max(length(state)) < 2000 FROM events").fetchone() == (1,)
        assert connection.execute("SELECT count(*) FROM blobs WHERE data IS NOT NULL").fetchone() == (2,)
    ledger.erase(turn.id, quotes="keep")
    with probe.read(ledger) as connection:
        assert connection.execute("SELECT count(*) FROM blobs WHERE data IS NOT NULL").fetchone() == (1,)
    assert ledger.proof.verify().ok


def test_what_an_import_does_not_take_is_told_with_what_it_takes(ledger: Ledger, tmp_path: Path) -> None:
    file = tmp_path / "turns.jsonl"
    file.write_text('{"prompt": "Tea?", "respons": "Yes."}\n{"prompt": "Tea?", "": 1}\n', encoding="utf-8")
    (_, unknown), (_, blank) = ledger.interactions.import_file(file).errors
    assert unknown.startswith("the line has an unknown field 'respons'; the known fields are: prompt, response, ")
    assert blank.startswith("the line has an unknown field ''")
    conversations = tmp_path / "talk.json"
    conversations.write_text(
        '[{"sample_id": "a"}, "a", {"turns": ["Hello."]}, {"turns": [{"text": "Hello."}]}]', encoding="utf-8"
    )
    report = ledger.interactions.import_file(conversations)
    why = "a conversation is an object with a sample_id and a list of turns, each an object"
    assert (report.captured, report.errors) == (1, ((1, why), (2, why), (3, why)))


@pytest.mark.parametrize("text", [None, 5, ["Hello."], {"text": "Hello."}])
@pytest.mark.parametrize("speaker", ["Ana", "user"])
def test_a_turn_whose_text_is_no_text_is_a_bad_line_with_its_field(
    ledger: Ledger, tmp_path: Path, text: object, speaker: str
) -> None:
    turns = [{"text": "Tea?"}, {"text": "Yes."}, {"text": "Milk?"}, {"speaker": speaker, "text": text}]
    file = tmp_path / "talk.json"
    file.write_text(json.dumps([{"turns": turns}, {"turns": turns[:1:-1]}]), encoding="utf-8")
    report = ledger.interactions.import_file(file)
    why = f"is a text, and {text!r} is not"
    assert (report.captured, report.errors) == (1, ((2, f"response {why}"), (3, f"prompt {why}")))
    with pytest.raises(RejectedError, match=r"line 2 of talk.json: response is a text, and"):
        ledger.interactions.import_file(file, strict=True)


def test_an_import_comes_from_whoever_is_bound_and_a_line_says_its_own_client(ledger: Ledger, tmp_path: Path) -> None:
    file = tmp_path / "turns.jsonl"
    file.write_text('{"prompt": "one", "client": "mail"}\n{"prompt": "two"}\n', encoding="utf-8")
    bound = ledger.bind(actor="nightly", client="loader", agent="helper", channel="web")
    assert bound.interactions.import_file(file).captured == 2
    assert [(each.prompt, each.client, each.agent) for each in ledger.interactions.list()] == [
        ("two", "loader", "helper"),
        ("one", "mail", "helper"),
    ]
    (trail,) = {(each.actor, each.channel) for each in ledger.history.audit(type="InteractionCaptured")}
    assert trail == ("nightly", "web")
    assert ledger.bind(client="other").interactions.import_file(file).known == 2


def test_an_import_of_nobody_in_particular_comes_by_file(ledger: Ledger, tmp_path: Path) -> None:
    file = tmp_path / "turns.jsonl"
    file.write_text('{"prompt": "one"}\n', encoding="utf-8")
    ledger.bind(actor="").interactions.import_file(file)
    (said,) = ledger.history.audit(type="InteractionCaptured")
    assert (said.actor, said.channel) == ("import", "file")


def test_a_time_for_lines_without_one_says_its_offset(ledger: Ledger, tmp_path: Path) -> None:
    file = tmp_path / "turns.jsonl"
    file.write_text('{"prompt": "one"}\n', encoding="utf-8")
    with pytest.raises(RejectedError, match="occurred_at says no offset"):
        ledger.interactions.import_file(file, occurred_at="2026-01-01T10:00:00")
    assert len(ledger.interactions.list()) == 0


@pytest.mark.parametrize(
    ("argument", "value"),
    [("summary", 7), ("context", {"at": object()}), ("memories_used", "m_1"), ("chunks_used", "c_1")],
)
def test_a_refused_capture_names_the_argument_as_the_caller_does(ledger: Ledger, argument: str, value: object) -> None:
    with pytest.raises(RejectedError, match=rf"^{argument}\b"):
        ledger.capture("Which coffee?", **{argument: value})  # type: ignore[arg-type]
    assert ledger.interactions.list() == []


def test_a_refused_extraction_names_the_argument_as_the_caller_does(ledger: Ledger) -> None:
    turn = ledger.capture("Which coffee?", "Dark roast.")
    with pytest.raises(RejectedError, match=r"^method must be 'model' or 'rules'"):
        ledger.extract(turn.id, method="both")  # type: ignore[arg-type]
