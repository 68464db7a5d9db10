"""Which texts bear each other out: what says nearly the same, unless the one may say something else than the other."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.observations.grouping import Groups, central, likeness, opposed, read, sentences, wording

ALIKE = [
    ("The user prefers dark roast coffee.", "User likes dark roast coffee"),
    ("Ann lives in Rome.", "Ann lives in Rome with two cats."),
    ("He has two cats at home.", "He has 2 cats at home!"),
    ("The user bought a red bicycle.", "The user buys a red bike"),
    ("Ann and Bob met in Rome at the Grand Hotel for lunch.", "Ann met Bob in Rome at the Grand Hotel"),
    ("The build must never use the network.", "the build must never use the network, please"),
    ("Ann lives in Rome.", "Ann now lives in Rome."),
    ("Der Server läuft in Köln.", "der Server läuft in Köln"),
]
APART = [
    ("The user prefers dark roast coffee.", "The user does not prefer dark roast coffee."),
    ("The user prefers dark roast coffee.", "The user prefers light roast coffee."),
    ("Ann lives in Rome.", "Ann lives in Oslo."),
    ("ann lives in rome", "ann lives in oslo"),
    ("Ann lives in New York with her cats.", "Ann lives in Oslo with her cats."),
    ("Ann lives in Rome.", "Ann used to live in Rome."),
    ("Ann lives in Rome.", "Ann no longer lives in Rome."),
    ("The staging database listens on port 5432.", "The staging database listens on port 5433."),
    ("He has two cats at home.", "He has three cats at home."),
    ("The team meets on Monday at noon.", "The team meets on Friday at noon."),
    ("Ann plans to move to Oslo with Bob.", "Ann moves to Oslo with Bob."),
    ("The user likes green tea.", "The user hates green tea."),
    ("Tests run before the build of the wheel.", "Tests run after the build of the wheel."),
    ("Ann likes green tea.", "Bob likes green tea."),
    ("Ann lent Bob her old car.", "Bob lent Ann her old car."),
    ("Ann prefers tea over coffee.", "Ann prefers coffee over tea."),
    ("Ann likes tea more than coffee.", "Ann likes coffee more than tea."),
    ("Part 0 is kept in hall 0.", "Part 7 is kept in hall 0."),
    ("Ann's manager is Karin.", "Ann's manager is Per now."),
    ("Ann prefers tea over coffee.", "Ann prefers coffee now."),
    ("Ann's email is a@x.org.", "Ann's email is c@x.org."),
    ("The docs are at https://a.example/x.", "The docs are at https://b.example/x."),
    ("The user drinks coffee.", "The harbour opens at dawn."),
    ("", "The user drinks coffee."),
    ("", ""),
]


@pytest.mark.parametrize(("one", "other"), ALIKE)
def test_texts_that_share_most_words_are_alike(one: str, other: str) -> None:
    assert likeness(read(one), read(other)) >= 400_000
    assert likeness(read(one), read(other)) == likeness(read(other), read(one))


@pytest.mark.parametrize(("one", "other"), APART)
def test_a_text_with_another_value_is_not_alike(one: str, other: str) -> None:
    assert likeness(read(one), read(other)) == likeness(read(other), read(one)) == 0


def test_two_names_in_common_bring_texts_together_that_share_less() -> None:
    one = "Deborah met Jolene at the yoga class near the old river by the mill."
    other = "Deborah met Jolene at the yoga class."
    assert likeness(read(one), read(other)) < 600_000
    assert likeness(read(one), read(other)) > 0
    assert likeness(read(one.replace("Jolene", "her")), read(other.replace("Jolene", "her"))) == 0


def test_statements_of_two_people_about_themselves_are_not_alike() -> None:
    text = "I love hiking in the mountains."
    assert likeness(read(text, speaker="Ann"), read(text, speaker="Ann"))
    assert not likeness(read(text, speaker="Ann"), read(text, speaker="Bob"))


WORDS = """
    Ann Bob lives likes not in Rome Oslo 2 3 two before after tea dark light roast the user used to 猫
"""
TEXTS = st.text(max_size=60) | st.lists(st.sampled_from(WORDS.split()), max_size=12).map(" ".join)


@given(TEXTS, TEXTS)
def test_likeness_does_not_depend_on_the_order(one: str, other: str) -> None:
    assert likeness(read(one), read(other)) == likeness(read(other), read(one))
    assert opposed(read(one), read(other)) == opposed(read(other), read(one))


@given(TEXTS)
def test_a_text_with_words_is_alike_to_itself(text: str) -> None:
    assert bool(likeness(read(text), read(text))) == bool(read(text).words)


def grouped(texts: list[str], order: list[str] | None = None) -> list[list[int]]:
    """Each text joins the group that it is nearest to, or begins one."""
    groups: Groups[int] = Groups(order or ())
    found: dict[int, list[int]] = {}
    for number, text in enumerate(texts):
        said = read(text)
        first = groups.nearest(said)
        if first is None:
            groups.add(number, said, number)
            first = number
        found.setdefault(first, []).append(number)
    return list(found.values())


@given(st.lists(TEXTS, max_size=20))
def test_every_member_of_a_group_is_alike_to_its_first(texts: list[str]) -> None:
    for first, *others in grouped(texts):
        assert all(likeness(read(texts[first]), read(texts[each])) for each in others)


@given(st.lists(TEXTS, max_size=12))
def test_groups_are_those_of_comparing_each_with_each(texts: list[str]) -> None:
    found: dict[int, list[int]] = {}
    for number, text in enumerate(texts):
        told = [(-likeness(read(text), read(texts[first])), first) for first in found]
        best = min(told, default=(0, 0))
        found.setdefault(best[1] if best[0] else number, []).append(number)
    assert grouped(texts) == list(found.values())


def test_notes_that_share_nearly_all_words_are_compared_with_a_few_only(monkeypatch: pytest.MonkeyPatch) -> None:
    from ledger.observations import grouping

    compared = 0
    honest = grouping.likeness

    def counting(one: grouping.Compared, other: grouping.Compared) -> int:
        nonlocal compared
        compared += 1
        return honest(one, other)

    monkeypatch.setattr(grouping, "likeness", counting)
    texts = [
        f"The server in the cellar reports every morning a temperature of {number} degrees." for number in range(1_000)
    ]
    assert grouped(texts) == [[number] for number in range(1_000)]
    assert compared <= 1_000 * 2 * grouping.NEIGHBORS


def test_the_most_central_text_is_the_one_most_like_the_others() -> None:
    texts = ["Ann likes tea.", "Ann likes green tea from Uji in the morning.", "Ann likes green tea."]
    assert central([read(each) for each in texts]) == 2
    assert central([read("Ann likes tea."), read("Ann likes tea.")]) == 1  # the newest of equals
    assert central([read("")]) == 0


def test_a_wording_is_one_line_of_at_most_thirty_words() -> None:
    assert wording("  Ann\nlikes   tea. ") == "Ann likes tea."
    long = " ".join(f"w{number}" for number in range(40))
    assert wording(long) == " ".join(f"w{number}" for number in range(30)) + "…"
    assert wording(f"Ann says. {long}").endswith("w27…")  # too little of it
    sentence = "Ann likes green tea from Uji very much, and she says so herself to everybody who asks her."
    assert wording(f"{sentence} {long}") == sentence
    assert wording("猫" * 1_000) == "猫" * 400 + "…"


@given(st.text(max_size=600))
def test_a_wording_invents_nothing(text: str) -> None:
    said = wording(text)
    assert len(said.split()) <= 30 and len(said) <= 401
    assert " ".join(text.split()).startswith(said.removesuffix("…").rstrip())


def test_only_sentences_of_a_turn_that_state_something_count() -> None:
    turn = "Hi! How are you today, my dear old friend?\nI love hiking in the green mountains. [shows a dog on a beach at dawn]"
    assert sentences(turn) == ["I love hiking in the green mountains."]
    assert len(sentences("The harbour opens early in spring. " * 500)) == 64
    assert sentences("word " * 5_000) == []
