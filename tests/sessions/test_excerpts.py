"""Excerpts: the weightiest sentences of messages, word for word, in a summary without a model and in the rest of a window."""

from __future__ import annotations

import random

import pytest

from ledger import Ledger
from ledger.domain.tokens import estimate
from ledger.english import weighing
from ledger.english.weighing import MessageToWeigh, sentences, weighed
from ledger.sessions.rules.excerpts import excerpt, positions, shorter
from ledger.types import SummaryRequest

SOME = "apple barrel candle dune ember fjord garden hammer island jungle kettle lantern meadow needle orchard pebble quarry"
WORDS = tuple(SOME.split())
FILLER = "That is a nice thing to hear about the garden and the weather over there today"


def sampled(seed: int) -> str:
    return " ".join(random.Random(str(seed)).choices(WORDS, k=9))


def texts(*said: str) -> list[MessageToWeigh]:
    return [MessageToWeigh(number, ("user", "assistant")[number % 2], text) for number, text in enumerate(said)]


# --- sentences -------------------------------------------------------------------------------------------------------


def test_a_full_stop_of_a_number_or_an_abbreviation_ends_no_sentence() -> None:
    found = [
        text for _, text in sentences("It is no. 5, v1.2.3 at 4.500,50. Am 14. März, z. B. um 9.\n- a\n好的。走吧。")
    ]
    assert found == ["It is no. 5, v1.2.3 at 4.500,50.", "Am 14. März, z. B. um 9.", "- a", "好的。", "走吧。"]


@pytest.mark.parametrize(
    ("weightier", "lighter"),
    [
        ("Never open the north gate after ten.", "We looked at the north gate in the evening."),
        ("The rent must stay under 900 euros.", "The rent was a topic with the neighbours."),
        ("From now on Ada Brook signs the lists.", "Somebody could have a look at the lists."),
        ("Bitte niemals vor 9 Uhr anrufen.", "Gestern war das Wetter ganz schön."),
        ("请不要在周五部署服务器。", "今天的天气很好啊朋友。"),
        ("The gate is at 53.5, 9.9.", "The gate is somewhere at the river."),
        ("My sister lives in Porto.", "Does anybody live there?"),
        ("It was moved to Thursday instead.", "Thanks, that sounds good!"),
    ],
)
def test_a_rule_a_figure_or_a_correction_weighs_more(weightier: str, lighter: str) -> None:
    ranked = [
        sentence.text
        for sentence in weighed([MessageToWeigh(1, "user", lighter), MessageToWeigh(2, "user", weightier)], 10)
    ]
    assert ranked == [weightier, lighter]


def test_of_near_equals_the_newest_stays() -> None:
    found = excerpt(texts("Never feed the red hens.", "Right.", "Never feed the red hens!"), 100, estimate)
    assert found.split("\n")[-1] == "#2 user: Never feed the red hens!" and found.count("hens") == 1


def test_an_excerpt_is_in_the_order_of_time_with_speaker_and_message() -> None:
    said = texts(f"{FILLER}. I never fly at night. {FILLER}! My seat is 14C.", "Thanks!", "The limit is 300 euros.")
    assert excerpt(said, 30, estimate).split("\n") == [
        "#0 user: I never fly at night. … My seat is 14C.",
        "#2 user: The limit is 300 euros.",
    ]
    assert positions(excerpt(said, 30, estimate)) == [0, 2]


def test_an_excerpt_fills_its_room_and_no_more() -> None:
    said = texts(*[f"{sampled(number)}. {sampled(-number)} {number}." for number in range(200)])
    for most in (200, 1_000, 3_000):
        assert most - 24 <= estimate(excerpt(said, most, estimate)) <= most


def test_a_shorter_excerpt_keeps_the_weightiest_lines() -> None:
    text = "#1 user: It rained.\n#2 user: Never pay over 300 euros.\n#3 assistant: It was a fine day."
    assert shorter(text, 45) == "#2 user: Never pay over 300 euros."
    assert shorter(text, 500) == text and shorter(text, 5) == ""


def test_the_signs_that_cost_are_looked_for_in_few_sentences_only(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = list[str]()
    closely = weighing._closely

    def counting(sentence: weighing.Sentence, *more: object) -> weighing.Sentence:
        looked.append(sentence.text)
        return closely(sentence, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(weighing, "_closely", counting)
    for count in (1_000, 4_000):
        looked.clear()
        excerpt(texts(*[f"{FILLER} {number}." for number in range(count)]), 100, estimate)
        assert len(looked) == 25


# --- in a session ----------------------------------------------------------------------------------------------------


def chatter(session, count: int, start: int = 0) -> None:
    for number in range(start, start + count):
        said = f"As they said in round {number}, {sampled(number)}. And {sampled(-1 - number)}."
        session.append(("user", "assistant")[number % 2], said)


def test_without_a_model_a_summary_is_an_excerpt_and_leads_to_its_messages(ledger: Ledger) -> None:
    session = ledger.session("harbor")
    rule = session.append("user", "Never let a ship in after 22:00.")
    chatter(session, 60)
    (made,) = session.compact().created
    assert (made.level, made.model, made.kind) == ("excerpt", "", "leaf")
    line = made.content.split("\n")[0]
    assert line == f"#{rule.position} user: Never let a ship in after 22:00."
    assert session.expand(f"#{rule.position}").messages[0].text == "Never let a ship in after 22:00."
    block = session.window(10**6).summary
    assert 'level="excerpt"' in block and "word for word" in block and "written by a model" not in block


def test_the_fifth_round_keeps_what_the_first_kept(ledger: Ledger) -> None:
    session = ledger.session("harbor")
    session.append("user", "Never let a ship in after 22:00.")
    for number in range(5):
        chatter(session, 40, 40 * number)
        session.append("user", f"The limit of basin {number} is {number}50 tons.")
        session.append("assistant", "Thanks!")
        budget = session.info().tokens * 3 // 10
        report = session.compact(budget, until_under=True)
        assert report.under and session.window(budget).used >= budget - 40
        shown = str(session.window(budget).render().messages)
        assert "after 22:00" in shown and all(f"{each}50 tons" in shown for each in range(number + 1))
    (made,) = session.summaries.list(statuses=("window",))
    assert made.level == "excerpt" and made.messages > 180, "one excerpt of all sources, not an excerpt of excerpts"


def test_a_model_writes_again_what_was_an_excerpt(ledger: Ledger) -> None:
    session = ledger.session("harbor")
    chatter(session, 80)
    session.compact(1_000, until_under=True)
    asked = list[str]()
    session.compact(500, until_under=True, summarizer=lambda request: asked.extend(request.texts) or "They talked.")
    assert any("As they said in round 0," in text for text in asked), "from the messages, not from the excerpt"
    assert all(row.level != "excerpt" for row in session.summaries.list(statuses=("window",)))


def test_a_window_shortens_an_excerpt_before_it_leaves_it_out(ledger: Ledger) -> None:
    session = ledger.session("harbor")
    session.append("user", "Never let a ship in after 22:00.")
    chatter(session, 100)
    session.compact(2_000, until_under=True)
    chatter(session, 30, 100)
    found = session.window(1_500, receipt=True)
    assert "excerpts_shortened" in found.reasons and found.summaries_evicted == 0
    assert "after 22:00" in found.summary and 1_500 * 0.97 <= found.used <= 1_500
    assert session.reopen(found.receipt).entries == found.entries


@pytest.mark.parametrize("budget", [1_000, 2_500, 8_000])
def test_at_most_three_per_cent_is_left_while_anything_is_left_out(ledger: Ledger, budget: int) -> None:
    session = ledger.session("harbor")
    for number in range(30):
        session.append("user", f"{FILLER} {number}. " * (1 + number * 7 % 40))
    session.append("assistant", "Yes.")
    found = session.window(budget, receipt=True)
    assert found.evicted and budget * 0.97 <= found.used <= budget
    part = next(entry for entry in found.entries if entry.shortened is not None)
    assert f"more characters in message {part.item.position}]" in part.content
    assert session.reopen(found.receipt).entries == found.entries


def test_nothing_left_out_says_nothing(ledger: Ledger) -> None:
    session = ledger.session("harbor")
    chatter(session, 60)
    session.compact()
    assert not session.window(10**6).evicted and session.window(500).evicted


def test_an_excerpt_of_an_empty_session_or_of_a_budget_too_small_loses_nothing(ledger: Ledger) -> None:
    session = ledger.session("harbor")
    assert session.compact(100).created == ()
    session.append("user", f"{FILLER}. " * 40)
    report = session.compact(50, until_under=True)
    assert (report.created, report.under, session.info().window_items) == ((), False, 1)
    assert "over_budget" in {skip.why for skip in report.skipped}


def test_a_session_of_many_leaves_has_excerpts_and_no_cut_beginnings(ledger: Ledger) -> None:
    session = ledger.session("harbor")
    chatter(session, 2_400)
    report = session.compact(2_000)
    assert len(report.created) > 2 and {made.level for made in report.created} == {"excerpt"}


# --- with a model ----------------------------------------------------------------------------------------------------

PLANTED = [
    f"Never unload crane {name} before {7 + number}:15." for number, name in enumerate(("Ada", "Ben", "Cleo", "Dora"))
]


def planted(session) -> None:
    for number, rule in enumerate(PLANTED):
        session.append("user", rule)
        chatter(session, 20, 20 * number)
    session.append("user", "Go on.")


def test_a_summarizer_that_forgets_every_second_is_asked_once_more_and_then_completed(ledger: Ledger) -> None:
    asked = list[SummaryRequest]()

    def forgetful(request: SummaryRequest) -> str:
        asked.append(request)
        return "They talked. " + " ".join(line.partition(": ")[2] for line in request.keep[::2])

    session = ledger.session("harbor")
    planted(session)
    (made,) = session.compact(force=True, summarizer=forgetful).created[:1]
    first, second = asked[:2]
    assert len(first.keep) >= 3 and first.draft == "" and all(line in first.prompt for line in first.keep)
    assert second.keep == first.keep[1::2] and second.draft and second.draft in second.prompt
    assert all(line.partition(": ")[2] in made.content for line in first.keep)
    assert made.level == "normal" and "\n#" in made.content, "what was lost twice is there with its message"


def test_a_summarizer_that_loses_nothing_is_asked_once(ledger: Ledger) -> None:
    session = ledger.session("harbor")
    planted(session)
    report = session.compact(summarizer=lambda request: "They talked. " + " ".join(request.keep))
    assert report.calls == len(report.created) == 1


def test_a_summary_that_is_written_again_must_not_lose_more_than_a_first_one(ledger: Ledger) -> None:
    asked = list[SummaryRequest]()

    def forgetful(request: SummaryRequest) -> str:
        asked.append(request)
        return "They talked."

    session = ledger.session("harbor")
    planted(session)
    (made,) = session.compact(force=True).created[:1]
    again = session.summaries.rewrite(made.id, summarizer=forgetful)
    assert len(asked) == 2 and len(asked[0].keep) >= 3 and asked[1].draft == "They talked."
    assert all(line in again.content for line in asked[0].keep)


def test_what_is_appended_to_a_summary_is_kept_by_the_next_one_too(ledger: Ledger) -> None:
    session = ledger.session("harbor")
    for _ in range(4):
        planted(session)
    session.compact(1_500, until_under=True, summarizer=lambda _: "They talked.")
    shown = str(session.window(1_500).render().messages)
    assert all(rule.split("crane ")[1] in shown for rule in PLANTED)


def test_an_allergy_said_in_march_is_in_the_window_of_december(ledger: Ledger) -> None:
    session = ledger.session("year")
    for month in range(1, 13):
        for day in range(1, 28, 3):
            when = f"2025-{month:02}-{day:02}T09:00:00Z"
            said = f"On the {day}th they saw {sampled(month * 100 + day)}."
            said = (
                "By the way, my son gets hives from hazelnuts, so they stay out of this house."
                if (month, day) == (3, 10)
                else said
            )
            session.append("user", said, occurred_at=when)
            session.append("assistant", f"They looked at {sampled(-month * 100 - day)}.", occurred_at=when)
            session.compact(1_500)
    window = session.window(1_500)
    assert "hives from hazelnuts" in window.summary and window.used <= 1_500
