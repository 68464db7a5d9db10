"""What the rule-based extractor proposes, what it drops, and how long it takes."""

from __future__ import annotations

import pytest
from counting import steps
from hypothesis import example, given
from hypothesis import strategies as st

from ledger.english.extractor import EXTRACTOR, DroppedFinding, Extracted, Extraction, extract_all

HEADING, SENTENCE = 700_000, 600_000


def extract(text: str) -> Extraction:
    return extract_all({"": text})


def _kept(text: str) -> list[tuple[str, str, str]]:
    return [(item.kind, item.content, item.rule) for item in extract(text).kept]


def _dropped(text: str) -> list[tuple[str, str]]:
    return [(item.rule, item.reason) for item in extract(text).dropped]


def test_the_extractor_says_its_version() -> None:
    assert EXTRACTOR == "rules/1"


# --- headings ---


@pytest.mark.parametrize(
    ("word", "kind"),
    [("Decision", "adaptation"), ("Constraint", "project"), ("Requirement", "project"), ("Fact", "knowledge")],
)
@pytest.mark.parametrize("separator", [": ", ":", " - ", " — ", "— ", " – "])
def test_a_heading_proposes_its_value_word_for_word(word: str, kind: str, separator: str) -> None:
    assert _kept(f"Well.\n{word}{separator}Use one file.\nMore.") == [(kind, "Use one file", f"{word.lower()}_heading")]


@pytest.mark.parametrize(
    "line",
    [
        "decision: use one file", "  DECISION :  use  one\tfile", "## Decision: use one file",
        "- Decision: use one file",
        "* Decision: use one file", "> 1. Decision: use one file", "- [x] Decision: use one file",
        "**Decision:** use one file", "**Decision**: use one file", "**Decision: use one file**",
        "- __Decision__: use one file.", "### **Decision** — use one file!", "*Decision: use one file.*",
    ],
)  # fmt: skip
def test_a_heading_may_stand_in_markdown(line: str) -> None:
    assert _kept(line) == [("adaptation", "use one file", "decision_heading")]


@pytest.mark.parametrize(
    "line",
    [
        "Decision-making is hard work", "Fact::new(everything, at, once)", "The decision: use one file",
        "Decisions: use one file", "Factual: use one file", "Decision use one file", "Decision\n: use one file",
    ],
)  # fmt: skip
def test_what_only_looks_like_a_heading_proposes_nothing(line: str) -> None:
    assert extract(line) == extract("")


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_a_heading_ends_with_its_line(newline: str) -> None:
    text = newline.join(["Fact: the sky is blue", "Fact: the sea is wet", ""])
    assert [content for _, content, _ in _kept(text)] == ["the sky is blue", "the sea is wet"]


# --- sentences ---


@pytest.mark.parametrize(
    "text",
    [
        "I prefer tabs over spaces.", "Well, the user prefers tabs over spaces!", "THE USER PREFER tabs over spaces",
        "(I prefer tabs over spaces)", "“I prefer tabs over spaces.”", '"I prefer tabs over spaces", she said',
        "**I prefer tabs over spaces.** Always.", "the\nuser  prefers tabs\nover spaces",
        "I prefer tabs  over\tspaces…",
    ],
)  # fmt: skip
def test_a_preference_reads_as_a_fact_about_the_user(text: str) -> None:
    assert [(kind, rule) for kind, _, rule in _kept(text)] == [("preference", "preference_sentence")]
    assert _kept(text)[0][1].startswith("The user prefers tabs over spaces")


def test_a_decision_in_a_sentence_says_that_it_was_decided() -> None:
    expected = [("adaptation", "Decided to keep one file", "decided_sentence")]
    assert _kept("Yesterday we decided to keep one file. Good.") == expected


def test_a_requirement_sentence_keeps_the_words_that_mark_it() -> None:
    expected = [("project", "The requirement is that nothing leaves the machine", "requirement_sentence")]
    assert _kept("So the requirement is that nothing leaves the machine.") == expected
    assert _kept("The requirement is: that nothing leaves the machine.") == expected


@pytest.mark.parametrize(
    "text",
    [
        "Do I prefer tabs over spaces?", "AI prefer tabs over spaces", "I\n\nprefer tabs over spaces",
        "They have not decided to keep one file", "We haven't decided to keep one file", "undecided to keep one file",
        "We have not yet decided to keep one file", "other requirement is that it is fast",
    ],
)  # fmt: skip
def test_a_question_a_denial_or_a_part_of_a_word_proposes_nothing(text: str) -> None:
    assert extract(text) == extract("")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("I prefer v3.11 over v3.9. It works.", "v3.11 over v3.9"),
        ("I prefer short names, e.g. one word. Yes.", "short names, e.g. one word"),
        ("I prefer short names\nThanks", "short names"),
        ("I prefer short names\n- long ones", "short names"),
        ("I prefer short names\n\nin code", "short names"),
        ("I prefer short names\r\n  in code", "short names in code"),
        ("I prefer f(x) (short)", "f(x) (short)"),
    ],
)
def test_a_sentence_ends_at_its_full_stop_or_where_its_line_does_not_go_on(text: str, value: str) -> None:
    assert _kept(text) == [("preference", f"The user prefers {value}", "preference_sentence")]


def test_two_rules_may_find_their_own_in_one_sentence() -> None:
    assert [rule for _, _, rule in _kept("We decided to ship it and the user prefers dark mode.")] == [
        "decided_sentence",
        "preference_sentence",
    ]


# --- what a heading said ---


def test_a_value_of_a_heading_does_not_come_again_from_a_sentence() -> None:
    text = "Decision: we decided to keep one file. I prefer dark mode.\nI prefer dark mode."
    assert [rule for _, _, rule in _kept(text)] == ["decision_heading", "preference_sentence"]
    assert _dropped(text) == []
    assert _dropped(text + "\nDecision: we decided to keep one file. I prefer dark mode.") == [
        ("decision_heading", "repeated")
    ]


def test_a_heading_too_long_to_propose_leaves_its_sentences_to_be_found() -> None:
    text = f"Decision: {'long ' * 60}. I prefer dark mode."
    assert _kept(text) == [("preference", "The user prefers dark mode", "preference_sentence")]
    assert _dropped(text) == [("decision_heading", "too_long")]


# --- bounds ---


@pytest.mark.parametrize("before", ["Fact: ", "I prefer ", "We decided to ", "The requirement is "])
def test_a_value_has_8_to_280_characters(before: str) -> None:
    def reasons(chars: int) -> list[str]:
        return [item.reason for item in extract(before + "v" * chars + ".").dropped]

    assert [reasons(7), reasons(8), reasons(280), reasons(281)] == [["too_short"], [], [], ["too_long"]]
    assert [len(extract(before + "v" * chars).kept) for chars in (7, 8, 280, 281)] == [0, 1, 1, 0]


def test_length_is_counted_after_collapsing_whitespace_and_stripping_punctuation() -> None:
    assert _dropped("Fact: a   b c d!!! ...") == [("fact_heading", "too_short")]
    assert _dropped("Fact: " + "v" * 140 + " " * 50 + "v" * 139 + "?!;") == []
    assert _dropped("Fact:") == [("fact_heading", "too_short")]


def test_a_value_too_long_is_shown_by_its_beginning_and_spanned_whole() -> None:
    (item,) = extract("Fact: " + "v" * 1_000).dropped
    assert item == DroppedFinding("knowledge", "v" * 280, "fact_heading", 0, 1_006, "too_long")


def test_the_same_value_under_the_same_rule_is_proposed_once() -> None:
    text = "Fact: The sky is blue.\nfact: the SKY  is blue\nConstraint: the sky is blue\nRequirement: the sky is blue"
    assert [rule for _, _, rule in _kept(text)] == ["fact_heading", "constraint_heading", "requirement_heading"]
    assert _dropped(text) == [("fact_heading", "repeated")]


def test_one_pass_proposes_at_most_fifty() -> None:
    text = "\n".join(f"Fact: this is fact {n}" for n in range(52)) + "\nFact: this is fact 0\nFact: tiny"
    extraction = extract(text)
    assert [item.content for item in extraction.kept] == [f"this is fact {n}" for n in range(50)]
    assert [item.reason for item in extraction.dropped] == ["batch_cap", "batch_cap", "repeated", "too_short"]


def test_dropped_values_are_listed_up_to_two_thousand_and_counted_beyond() -> None:
    extraction = extract("Fact: x\n" * 2_500)
    assert (len(extraction.dropped), extraction.further_dropped) == (2_000, 500)


# --- several texts ---


def test_several_texts_are_one_pass_and_items_name_their_field() -> None:
    facts = "\n".join(f"Fact: this is fact {n}" for n in range(30))
    more = "\n".join(f"Fact: this is fact {n}" for n in range(20, 60))
    extraction = extract_all({"response": facts, "summary": more})
    assert [item.field for item in extraction.kept] == ["response"] * 30 + ["summary"] * 20
    assert [item.reason for item in extraction.dropped] == ["repeated"] * 10 + ["batch_cap"] * 10
    assert {item.field for item in extraction.dropped} == {"summary"}


def test_a_heading_covers_its_own_text_only() -> None:
    extraction = extract_all({"response": "Decision: " + "v" * 99, "summary": "I prefer dark mode"})
    assert [item.rule for item in extraction.kept] == ["decision_heading", "preference_sentence"]


# --- spans and confidence ---


def test_a_span_covers_the_heading_or_turn_of_phrase_and_its_value() -> None:
    text = "Hi.\n- **Fact:** the sky is blue. \nYes, I prefer dark mode!"
    assert extract(text).kept == (
        Extracted("knowledge", "the sky is blue", "fact_heading", 8, 31, HEADING),
        Extracted("preference", "The user prefers dark mode", "preference_sentence", 39, 57, SENTENCE),
    )
    assert [text[item.start : item.end] for item in extract(text).kept] == [
        "Fact:** the sky is blue",
        "I prefer dark mode",
    ]


PIECES = [
    "Decision", "Fact", ":", " - ", "—", "\n", "\r\n", " ", "I prefer", "the user prefers ", "decided to", "**", "- ",
    "the requirement is ", "v3.11", "e.g.", ".", "?", "…", ")", "“", "”", "one more word ", "x" * 100, "İ",
]  # fmt: skip


@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=3)).map("".join))
@example("Fact: " + "x" * 300)
@example("I prefer İİİİİİİİ")
def test_spans_lie_inside_the_text_in_order_and_hold_the_value(text: str) -> None:
    extraction = extract(text)
    items: list[Extracted | DroppedFinding] = [*extraction.kept, *extraction.dropped]
    assert all(0 <= item.start < item.end <= len(text) for item in items)
    assert [item.start for item in extraction.kept] == sorted(item.start for item in extraction.kept)
    for item in extraction.kept:
        value = item.content.removeprefix("The user prefers ").removeprefix("Decided to ")
        value = value.removeprefix("The requirement is ")
        assert 8 <= len(value) <= 280
        assert " ".join(text[item.start : item.end].split()).endswith(value)


# --- time ---

REPEATS = [
    "I prefer ", "I prefer I prefer? ", "decided to ", "the requirement is ", "the ", "I ", "I\n", "- ", "- [x] ", "#",
    "*", "_", " ", "\n", "\t\n", " \r\n", "e.g.", "...", ". )", "(", ")", '"', "Fact: x\n", "**Decision:** ) ] ",
    "Decision - ", "prefer\n", "decided to x\ny", "İ",
]  # fmt: skip


@pytest.mark.parametrize("unit", REPEATS, ids=repr)
def test_work_grows_with_the_text_and_not_with_its_square(unit: str) -> None:
    def took(chars: int) -> int:
        text = f"I prefer {unit * (chars // len(unit))}? decided to requirement\nFact: {unit * (chars // len(unit))}"
        return steps(lambda: extract(text))

    # The square of so long a text would not end: what a regular expression takes is seen by this alone.
    assert took(200_000) <= 11 * took(20_000) + 1_000
