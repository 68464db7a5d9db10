"""The part of a message that is the user's own: on pasted texts and self-descriptions that were written without the rules."""

from __future__ import annotations

import json

import pytest
from places import TESTS

from ledger.english.foreign import LONG_CHARS, foreign, marked
from ledger.english.words import words
from ledger.extraction.lines import ConversationLine
from ledger.extraction.rule_findings import by_rules, rule_row
from ledger.memories import admission_rules as admitting

CORPUS = TESTS / "corpus"


def rows(name: str, half: str) -> list[dict[str, object]]:
    found = [json.loads(line) for line in (CORPUS / name).read_text(encoding="utf-8").splitlines()]
    return [each for each in found if each["half"] == half]


def admitted_by(text: str) -> list[tuple[str, admitting.AdmissionRow]]:
    """What the rules find in a user's message, each with the line of the table by which it is admitted."""
    line = ConversationLine(position=1, text_at=1, role="user", text=text, time="")
    return [(each.content, rule_row(each, line)) for each in by_rules([line]).kept]


def found(text: str) -> list[tuple[str, bool]]:
    """What the rules find in a user's message, each with whether it is active at once."""
    return [(content, row.status == admitting.ACTIVE) for content, row in admitted_by(text)]


def own(text: str) -> str:
    """The user's own words in a message."""
    taken = {at for start, end in foreign(text) for at in range(start, end)}
    return " ".join("".join(" " if at in taken else each for at, each in enumerate(text)).split())


def is_own(text: str, start: int, end: int) -> bool:
    return not any(first < end and start < last for first, last in foreign(text))


def says(content: str, facts: object) -> bool:
    """Whether a fact of the corpus says what a memory does: half of the words of the shorter one."""
    own_words = set(words(content)) - {"the", "user"}
    assert isinstance(facts, list)
    for fact in facts:
        wanted = set(words(fact["says"])) - {"the", "user"}
        if 2 * len(own_words & wanted) >= min(len(own_words), len(wanted)):
            return True
    return False


@pytest.mark.parametrize("half", ["seen", "unseen"])
def test_of_pasted_texts_at_most_two_in_a_hundred_are_admitted(half: str) -> None:
    texts = rows("pasted_texts.jsonl", half)
    admitted = [
        row["text"]
        for row in texts
        if any(active and not says(content, row["own"]) for content, active in found(str(row["text"])))
    ]
    assert len(texts) >= 50 and len(admitted) <= 0.02 * len(texts)
    without = sum(bool(found(str(row["text"]))) for row in texts)
    assert without >= 20, "there is something in them to admit wrongly: the rules alone find a statement in many"


@pytest.mark.parametrize("half", ["seen", "unseen"])
def test_what_the_rules_find_in_an_ordinary_self_description_is_admitted(half: str) -> None:
    """A standing order that a rule found does not count: it waits for review by the table, whoever wrote it."""
    texts = [str(row["text"]) for row in rows("self_descriptions.jsonl", half) if row["facts"]]
    taken = [row for text in texts for _, row in admitted_by(text) if row != admitting.ORDER]
    assert len(taken) >= 10 and sum(row == admitting.OWN_WORDS for row in taken) >= 0.9 * len(taken)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("I live in Oslo.", "I live in Oslo."),
        (
            "I'm vegan and live in Oslo.\n\nWhat can I cook tonight?",
            "I'm vegan and live in Oslo. What can I cook tonight?",
        ),
        ("Hi!\nI live in Oslo.\nThanks a lot", "Hi! I live in Oslo. Thanks a lot"),
        ('My cat is called "Biscuit".', 'My cat is called "Biscuit".'),
        ("FYI: I moved to Oslo.", "FYI: I moved to Oslo."),
        ("I said I live in Oslo.", "I said I live in Oslo."),
        ('He is silly: "I live in a tree". I live in Oslo.', "He is silly"),
        ('"I live in a tree", he thinks. I live in Oslo.', ", he thinks. I live in Oslo."),
        ("> I live in a tree\nWhy would I?", ""),
        ("She writes that I live in a tree. I live in Oslo.", "She"),
        ("I run a hotel. Please translate this. I live in a tree.", "I run a hotel."),
        ("I live in a tree. Translate.", ""),
        ("What does a bag cost? I pay by card.", "What does a bag cost? I pay by card."),
        ("Is it true? I live in a tree.", ""),
        ("I live in a tree. Is that true?", ""),
        ("I live in a tree\n\nwho is that?", ""),
        ("A caption\n\nI live in a tree.", ""),
        ("Dear all, I live in a tree.", ""),
        ("ANNA: I live in a tree.", "ANNA"),
        ("1) I live in a tree.\n2) I do not.", ""),
        ("I live in a tree. " * 100, ""),
    ],
)
def test_the_users_own_words_end_where_another_text_may_begin(text: str, kept: str) -> None:
    assert own(text) == kept


def test_a_span_is_the_users_own_only_as_a_whole() -> None:
    text = 'I live in Oslo, "I live in a tree" is a song.'
    assert is_own(text, 0, 14) and not is_own(text, 0, 25) and not is_own(text, 17, 33)


def test_of_a_long_message_nothing_is_read_and_nothing_is_the_users_own() -> None:
    text = "I live in Oslo. " * LONG_CHARS
    assert foreign(text) == ((0, len(text)),)


@pytest.mark.parametrize(
    "text",
    [
        "My one on one has moved, thursdays at two now. Can you adapt that agenda so it takes 20 minutes?",
        "new school trip form. Allergies box: cashews and pistachios, anaphylaxis. Did I word that right",
        "Imogen babysits for us now, 9.50 an hour. Is that standard",
        "Colm quoted me 640 for the sign over my shop. Reasonable?",
        "exam for A1 passed with 8.5. Femke wants me in A2 from 12 January. Is that enough to argue with a landlord?",
    ],
)
def test_an_ordinary_line_has_no_mark_of_a_foreign_text(text: str) -> None:
    assert foreign(text) and marked(text) == ()


@pytest.mark.parametrize(
    ("text", "mine"),
    [
        ("Translate: I am allergic to nuts.", "Translate:"),
        ("Can you fact check this? I live in Houston and I know it.", "Can you fact check this?"),
        ('My sister says "I live in Rome and I am a nurse" all day.', "My sister says all day."),
        ("summarize:\n\nHi, I'm Bob. I live in Kiruna.", ""),
        ("Explain the legal situation: I rent a flat in Antwerp.", "Explain the legal situation:"),
        ("Got this from a recruiter: I'm Kim and I live in Ghent.", "Got this from a recruiter:"),
        ("My aunt sent me this, any ideas: I don't eat bread.", "My aunt sent me this, any ideas:"),
    ],
)
def test_a_marked_text_is_never_taken_for_the_users_own(text: str, mine: str) -> None:
    taken = {at for start, end in marked(text) for at in range(start, end)}
    assert " ".join("".join(" " if at in taken else sign for at, sign in enumerate(text)).split()) == mine
