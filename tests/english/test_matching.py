"""Whether a response restates a memory, under each version of the rule."""

from __future__ import annotations

import re
from random import Random
from unittest.mock import patch

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from plain_matching import plainly

from ledger.domain.errors import RejectedError
from ledger.english import clauses, matching
from ledger.english.matching import (
    COMMON,
    DEFAULT_MATCHER,
    MATCHERS,
    Match,
    Response,
    Restatement,
    found_by,
    judge,
    match,
    needed_stems,
    sought,
)
from ledger.english.meaning import AGAINST, FAMILY, OPPOSITES, kindred, significant
from ledger.english.words import NEGATIONS, stem, stems


def _numbered(count: int) -> str:
    """Return so many words that are no figures, the same ones first."""
    return " ".join(f"w{chr(97 + n // 26 % 26)}{chr(97 + n // 676)}{chr(97 + n % 26)}ox" for n in range(count))


def test_there_are_two_versions_and_the_last_is_the_default() -> None:
    assert list(MATCHERS) == ["substring/1", "stems/6"]
    assert DEFAULT_MATCHER == "stems/6"


def test_a_version_that_does_not_exist_is_refused() -> None:
    with pytest.raises(RejectedError, match=r"'stems/4'.*substring/1, stems/6"):
        match("stems/4", Response("text"), "text")


# --- substring/1 ---


def test_substring_ignores_case_and_whitespace() -> None:
    response = Response("As said:  PREFERS\n dark   mode, always.")
    assert match("substring/1", response, " prefers Dark\tmode ") == Match(17, 17, 1_000_000)
    assert match("substring/1", response, "prefers light mode") is None


def test_substring_needs_twelve_characters() -> None:
    assert match("substring/1", Response("x abcdefghijk x"), "abcdefghijk") is None
    assert match("substring/1", Response("x abcdefghijkl x"), "abcdefghijkl") == Match(12, 12, 1_000_000)
    assert match("substring/1", Response("x a b x"), "a" + " " * 20 + "b") is None


def test_substring_looks_at_the_first_eighty_characters_only() -> None:
    memory = "m" * 80 + " and what the response does not say"
    assert match("substring/1", Response("m" * 80), memory) == Match(80, 80, 1_000_000)
    assert match("substring/1", Response("m" * 79), memory) is None


# --- how much of a memory ---


def test_a_memory_of_three_stems_needs_all_and_a_longer_one_six_in_ten() -> None:
    assert [needed_stems(total) for total in (1, 2, 3, 4, 5, 8, 10, 15)] == [1, 2, 3, 3, 3, 5, 6, 9]
    assert [needed_stems(total, of_user=False) for total in (1, 4, 5, 8, 9, 15)] == [1, 4, 5, 5, 6, 9]


def test_a_long_memory_needs_twelve_stems_and_thirty_five_percent() -> None:
    assert [needed_stems(total) for total in (16, 30, 34, 35, 40, 100)] == [12, 12, 12, 13, 14, 35]


@pytest.mark.parametrize("memory", ["", "the of and", "?!", "the of and a was not"])
def test_a_memory_without_stems_never_matches(memory: str) -> None:
    assert match("stems/6", Response("the of and ?! anything a was not"), memory) is None


def test_the_fraction_is_rounded_half_even() -> None:
    for held, of, fraction in ((47, 64, 734_375), (65, 128, 507_812), (67, 128, 523_438)):
        assert match("stems/6", Response(_numbered(held)), _numbered(of)) == Match(held, of, fraction)


# --- the filter ---


def test_a_memory_is_found_by_its_stems_but_the_commonest() -> None:
    assert found_by("ccc bbbb aaaa dd") == (4, {"aaaa", "bbbb", "ccc", "dd"})
    assert found_by("the of") == (0, frozenset())
    assert found_by("python") == (1, {"python"})
    assert found_by("The user does not like dark roast coffee.") == (2, {"like", "dark", "roast", "coffe"})
    assert found_by("never not") == (0, frozenset())
    assert found_by(_numbered(100)) == (35, stems(_numbered(100)))


VOCABULARY = [("w" * (n % 7 + 1)) + f"{n:02}" for n in range(30)] + [*COMMON, *sorted(NEGATIONS)]


@given(st.sets(st.sampled_from(VOCABULARY)).flatmap(lambda memory: st.permutations(sorted(memory))))
@example(["python"])
def test_every_text_that_matches_has_enough_of_what_a_memory_is_found_by(memory: list[str]) -> None:
    content = " ".join(memory)
    least, found = found_by(content)
    for size in range(len(memory) + 1):
        response = Response(" ".join(["other", *memory[:size]]))
        if match("stems/6", response, content):
            assert len(found & sought(response)) >= least >= 1


# --- stems/6: clause by clause ---


@pytest.mark.parametrize(
    ("memory", "response", "how"),
    [
        ("The user is allergic to peanuts.", "The user is not allergic to peanuts.", "negation"),
        ("The user is allergic to peanuts.", "Good to know: you aren't allergic to peanuts any more.", "negation"),
        ("The user lives in Lisbon.", "The user used to live in Lisbon.", "past"),
        ("The user prefers dark roast coffee.", "The user no longer prefers dark roast coffee.", "past"),
        ("The user prefers dark roast coffee.", "You hate dark roast coffee!", "opposite"),
        ("The user prefers dark roast coffee.", "The user prefers light roast coffee.", "opposite"),
        ("The user likes cats.", "The user likes dogs and hates cats.", "opposite"),
        ("The user does not eat meat.", "The user eats meat.", "negation"),
        ("The user does not eat meat.", "Noted: you eat meat on Sundays.", "negation"),
        ("Ana does not eat meat.", "Today Ana eats meat.", "negation"),
        ("Ana likes fish and does not eat meat.", "Ana likes fish and eats meat.", "negation"),
        ("The user plays chess. The user lives in Rome.", "You play chess. You do not live in Rome.", "negation"),
        ("The user likes hiking in the Alps.", "You don't enjoy hiking in the Alps.", "negation"),
        ("The user likes hiking.", "Right, you don't enjoy hiking.", "negation"),
        ("The user likes hiking.", "You no longer enjoy hiking.", "past"),
        ("The user bought a boat in Malmo.", "You didn't buy a boat in Malmo.", "negation"),
        ("The user lives in Oslo near the fjord.", "You are not living in Oslo near the fjord.", "negation"),
        ("The invoice API uses OAuth tokens.", "The invoice API stopped using OAuth tokens.", "past"),
        ("The user doesn't drink coffee after noon.", "You drank coffee after noon.", "negation"),
        ("Tests run in parallel by default.", "Tests failed to run in parallel by default.", "negation"),
        ("The user takes metformin for diabetes.", "You hardly take metformin for diabetes.", "negation"),
    ],
)
def test_a_denial_is_no_match_and_says_how(memory: str, response: str, how: str) -> None:
    found = judge("stems/6", Response(response), memory)
    assert (found.match, found.denial) == (None, how)


@pytest.mark.parametrize(
    ("memory", "response"),
    [
        ("The user prefers dark roast coffee.", "You prefer dark roast coffee, even if it is not cheap."),
        ("The user does not eat meat.", "Noted: you don't eat any meat."),
        ("The user no longer drinks coffee.", "The user does not drink coffee any more."),
        ("The user likes dogs and hates cats.", "The user likes dogs and hates cats."),
        ("The user likes cats very much.", "Not only do you like cats very much."),
        ("Ana works at Acme Corporation.", "Ana lives in Lisbon; works at Acme Corporation."),
        ("The tool is used to convert videos.", "The tool is used to convert videos quickly."),
        ("The user plays chess. The user lives in Rome.", "You play chess a lot. As you live in Rome, come by."),
        ("The user likes hiking in the Alps.", "You don't just like hiking in the Alps, you love it."),
        ("The invoice API uses OAuth tokens.", "No, the invoice API uses OAuth tokens."),
        ("The build takes ten minutes on CI.", "The build takes no more than ten minutes on CI."),
        ("The user has a peanut allergy.", "There are no peanuts in it, as you have a peanut allergy."),
        ("The user has a peanut allergy.", "You have a peanut allergy, so no peanut sauce for you."),
        ("The user takes the bus if it rains.", "You take the bus if it rains."),
        ("Ana lives in Lisbon.", "If it suits you, Ana lives in Lisbon."),
        ("The user can't stand long meetings.", "You can't stand long meetings."),
        ("The user plays tennis on Mondays.", "You don't play tennis on Tuesdays, you play on Mondays."),
    ],
)
def test_what_is_said_in_the_same_sense_matches(memory: str, response: str) -> None:
    found = judge("stems/6", Response(response), memory)
    assert found.match is not None and found.denial == ""


@pytest.mark.parametrize(
    ("memory", "response"),
    [
        ("likes cats", "likes cats"),  # ten characters
        ("The user likes black cats.", "The user has a black car. Cats like milk."),
        ("The user likes black cats.", "Do you like black cats?"),
        ("The user is a vegetarian cook.", "The user was a vegetarian cook."),
        ("The user likes cats very much.", "The user likes dogs and hates birds very much."),
        ("I have never posted book reviews online.", "Starting to post book reviews online is rewarding."),
        ("The user never posted book reviews online.", "Starting to post book reviews online is rewarding."),
        ("I'm afraid I won't meet the new deadline.", "This plan ensures that you meet the new deadline."),
        ("Nike does not take returns of limited editions.", "You may take returns of limited editions elsewhere."),
        ("The user prefers tabs over spaces.", "If you don't prefer tabs over spaces, set the indent."),
        ("The user prefers tabs over spaces.", "If you prefer tabs over spaces, set the indent."),
        ("Ana lives in Lisbon.", "I am not sure whether Ana lives in Lisbon."),
        ("Ana lives in Lisbon.", "I doubt that Ana lives in Lisbon."),
        ("The office is open in Paris.", "The office isn't open in Berlin, but it is open in Paris."),
        ("The office is open in Paris.", "The office is open in Berlin, but it isn't open in Paris."),
        ("Ana lives in Lisbon.", "Ana doesn't live in Porto but in Lisbon."),
        ("The user is allergic to peanuts.", "I don't think that you are allergic to peanuts."),
        ("The key rotates every ninety days.", "It is not true that the key rotates every ninety days."),
        ("The user likes hiking in the Alps.", "You can't stand hiking in the Alps."),
        ("The user plays tennis on Mondays.", "You haven't stopped playing tennis on Mondays."),
    ],
)
def test_words_of_other_clauses_questions_suppositions_and_short_memories_are_neither(
    memory: str, response: str
) -> None:
    found = judge("stems/6", Response(response), memory)
    assert (found.match, found.denial) == (None, "")


LISTED = {
    "about the note": [
        ("The user likes dark roast.", "I have removed the note that you like dark roast."),
        ("The user likes dark roast.", "I'll forget that you like dark roast."),
        ("The user lives in Berlin.", "I doubt the user lives in Berlin."),
        ("The user lives in Berlin.", "I was wrong that you live in Berlin."),
        ("The user lives in Berlin.", "I cannot confirm that you live in Berlin."),
        ("The user's salary is 62,000.", "The memory with your salary of 62,000 has been deleted."),
    ],
    "another subject": [
        ("The user's daughter plays the violin.", "Tim's daughter plays the violin."),
        ("The user's daughter plays the violin.", "Your daughter's friend plays the violin."),
        ("The user prefers green tea.", "Your mother prefers green tea."),
        ("The user works at Acme.", "Tim works at Acme, and you work at Initech."),
        ("The user's team deploys on Thursdays.", "Their team deploys on Thursdays."),
    ],
    "quoted": [
        ("The user likes dark roast.", 'The label says "you like dark roast".'),
        ("The user likes dark roast.", "Run this:\n```\nyou like dark roast\n```"),
        ("The user likes dark roast.", "> You like dark roast"),
    ],
    "past": [
        ("The user plays the cello.", "You played the cello at school."),
        ("The user drives a Golf.", "You drove a Golf."),
        ("The user's manager is Priya Nair.", "Priya Nair was your manager."),
    ],
    "supposed": [
        ("The user uses Linux.", "You should use Linux."),
        ("The user likes dark roast.", "Suppose you like dark roast."),
        ("The user lives in Berlin.", "As long as you live in Berlin, the tax applies."),
        ("The user plays the cello.", "Perhaps you play the cello."),
    ],
    "other figures and words": [
        ("The user takes 50 mg of sertraline.", "You take 100 mg of sertraline."),
        ("The user's wedding is on 3 May.", "Your wedding is on 4 May."),
        ("The user is a doctor.", "Ask your doctor."),
        ("The user codes in Go.", "You'll have to go through the code of conduct."),
    ],
    "another language": [("Der Nutzer wohnt in Ulm.", "Der Nutzer wohnt nicht in Ulm.")],
}


@pytest.mark.parametrize(
    ("memory", "response"), [pytest.param(*pair, id=f"{name}: {pair[1]}") for name in LISTED for pair in LISTED[name]]
)
def test_what_is_not_said_of_the_same_subject_now_and_as_so_decides_nothing(memory: str, response: str) -> None:
    assert judge("stems/6", Response(response), memory) == Restatement()


@pytest.mark.parametrize(
    ("memory", "response"),
    [
        ("The user drives an electric Kia Niro.", "Two chargers on that route suit your Kia Niro."),
        (
            "The user's budget for the bathroom is 11,000 dollars.",
            "It would use up your 11,000 dollar bathroom budget.",
        ),
        ("The user takes metformin.", "Metformin, which you take, is fine with that."),
        ("The user drinks oat milk.", "The oat milk you drink is on offer."),
        ("The user's dentist is Dr. Lim.", "Dr. Lim is your dentist, so call her first."),
        ("The user has a dog named Rex.", "Rex, your dog, needs a vaccination card."),
        ("The user is allergic to peanuts.", "I've left them out because you're allergic to peanuts."),
        ("The user goes to the gym on Tuesdays.", "On Tuesdays you usually go to the gym."),
        ("The user's team deploys on Thursdays.", "Because the team deploys on Thursdays, merge by noon."),
    ],
)
def test_you_and_your_say_what_the_user_is_does_and_has(memory: str, response: str) -> None:
    assert match("stems/6", Response(response), memory) is not None


@pytest.mark.parametrize(
    ("memory", "response"),
    [
        ("The user works as a nurse.", "Working as a nurse, you know how such nights go."),
        ("The user has asthma.", "Having asthma, you should keep the inhaler at hand."),
        ("The user is vegan.", "Being vegan, you'll want the oat version."),
        ("The user is a teacher.", "As a teacher, you get into the museum free of charge."),
        ("The user is a vegetarian.", "As a vegetarian you get iron from lentils."),
        ("The user lives in Bergen.", "As someone who lives in Bergen you'll hardly need to be told."),
        ("The user works night shifts.", "That's harder for people on night shifts like you, but blinds help."),
        ("The user can't drive.", "For people who can't drive, like you, there is a bus."),
        ("The user runs marathons.", "For someone like you, who runs marathons, 10 km is a warm-up."),
        (
            "The user's production database is called atlas_main.",
            "It touches atlas_main, which is your production database.",
        ),
        ("The user's dentist is Dr. Lim.", "Dr. Lim, who's your dentist, is on leave this week."),
        ("The user takes metformin.", "Metformin, which you take every morning, is fine with that."),
        ("The user drinks oat milk.", "The oat milk that you drink is on offer."),
    ],
)
def test_a_participle_and_a_relative_clause_say_it_of_their_subject(memory: str, response: str) -> None:
    assert match("stems/6", Response(response), memory) is not None


@pytest.mark.parametrize(
    ("memory", "response"),
    [
        ("The user works as a nurse.", "Working as a nurse, you would earn about 3,000 a month."),
        ("The user works as a nurse.", "Working as a nurse, you earned 200 crowns an hour back then."),
        ("The user works as a nurse.", "Working as a nurse, your sister knows how such nights go."),
        ("The user works as a nurse.", "Working as a nurse is hard, you know."),
        ("The user is moving to Canada.", "Moving to Canada, you'll need a permit first."),
        ("The user is a nurse.", "As a nurse will tell you, washing hands helps."),
        ("The user is a nurse.", "As a nurse told you yesterday at noon, wash your hands."),
        ("The user has two children.", "If you move, having two children, you need a car."),
        ("The user lives in Bergen.", "As someone who lives in Bergen told you, it rains a lot."),
        ("The user works night shifts.", "People who work night shifts, unlike you, need blackout blinds."),
        ("The user works night shifts.", "For someone like you it is hard to say who works night shifts."),
        ("The user has asthma.", "Nobody with asthma like you describe needs that."),
        ("The user owns a sailing boat.", "Owning a sailing boat costs more than you think."),
        ("The user drinks oat milk.", "The label on the oat milk says that you drink it cold."),
        ("The user's branch is main.", "It merges main into dev, which is your branch."),
        ("The user's branch is main.", "It pushes to main, which may be your branch."),
        ("The user's sister is Ana.", "Ana knows Eva, who is your sister."),
        ("The user's dentist is Dr. Lim.", "Dr. Lim recommends Dr. Sato, who is your dentist."),
        ("The user's dentist is Dr. Lim.", "Your dentist is Dr. Sato."),
    ],
)
def test_but_not_if_that_is_somebody_else_or_only_supposed(memory: str, response: str) -> None:
    assert match("stems/6", Response(response), memory) is None


@pytest.mark.parametrize("end", ["\r\n", "\r", "\N{NO-BREAK SPACE}", " \N{LINE SEPARATOR}", '" \r\n', "\v"])
def test_a_question_is_none_the_less_one_for_the_whitespace_that_follows_it(end: str) -> None:
    assert judge("stems/6", Response(f"Do you like black cats?{end}"), "The user likes black cats.").match is None
    assert clauses.clauses(f"Do you like black cats?{end}") == ()


def test_a_short_text_in_a_script_without_spaces_is_long_enough() -> None:
    assert match("stems/6", Response("用户喜欢喝黑咖啡。"), "用户喜欢喝黑咖啡") is not None


_SPOKEN = st.lists(
    st.sampled_from(
        [
            "the",
            "user",
            "you",
            "like",
            "hates",
            "not",
            "no",
            "longer",
            "used",
            "to",
            "cats",
            "dogs",
            "and",
            "but",
            ",",
            ".",
            "?",
        ]
    ),
    max_size=14,
).map(" ".join)


@given(_SPOKEN, _SPOKEN)
@example("The user likes cats.", "You hate cats.")
@example("user like cat dog", "You hate cats and dogs.")
def test_every_text_that_stems_6_finds_something_in_has_enough_of_what_a_memory_is_found_by(
    content: str, text: str
) -> None:
    response = Response(text)
    judged = judge("stems/6", response, content)
    if judged.match is not None or judged.denial:
        least, found = found_by(content)
        assert len(found & sought(response)) >= least >= 1


# --- what is left out before a memory is cut ---

TALKED = """
    the The user you You Ana Rome like likes love hate hates dislike avoid can't stand not no never doesn't don't isnt used to
    longer stopped if whether doubt that is was will cats cat dogs study studies studying studied bought buy buys sold live
    lives living lived new old newer more fewer best worst early late always rarely meat vegan mice mouse felt saw seen and or
    but , ; ( . . ! ? \\ \n now really caf\u00e9 cafe\u0301 user\u2019s It\u2019s \u0130stanbul
"""
_TALK = st.lists(st.sampled_from([*TALKED.split(), "\n"]), max_size=30).map(" ".join)


def _memory_and_response(draw: Random, text: list[str]) -> tuple[str, str]:
    return " ".join(draw.choices(text, k=draw.randint(3, 14))), " ".join(draw.choices(text, k=draw.randint(3, 40)))


def _assert_as_worded(content: str, text: str) -> Restatement:
    found = judge("stems/6", Response(text), content)
    with plainly():
        assert judge("stems/6", Response(text), content) == found
    return found


@given(_TALK, _TALK)
@example("The user likes cats.", "You hate cats.")
@example("The user does not like cats.", "You love cats. Dogs do not.")
@example("The user can't stand long meetings.", "You like long meetings.")
@example("Ana dislikes big black cats, and she can't stand dogs.", "Ana has no big black cats. You like tea.")
@example("The user studies law.", "You do not study law, and no law studies you.")
@example("He dislikes cats, and Ana likes cats.", "Ana hates cats; he likes cats.")
def test_what_is_left_out_before_a_memory_is_cut_decides_nothing(content: str, text: str) -> None:
    _assert_as_worded(content, text)


def test_nor_does_it_in_thousands_of_texts_of_few_words() -> None:
    draw, decided = Random(11), 0
    for _ in range(3_000):
        some = draw.sample(TALKED.split(), 12)
        found = _assert_as_worded(*_memory_and_response(draw, some))
        decided += found.match is not None or bool(found.denial)
    assert decided > 300


def test_a_memory_whose_words_stand_in_more_clauses_than_it_has_is_not_cut() -> None:
    response = Response("You have a black car. Cats like milk, but dogs do not.")
    with patch.object(matching, "_clauses_of_memory", side_effect=AssertionError):
        assert judge("stems/6", response, "The user likes black cats.") == Restatement()
    found = judge("stems/6", response, "The user has a black car.")
    assert found.match == Match(3, 3, 1_000_000)


@pytest.mark.parametrize("count", [255, 256, 300, 1_000])
def test_a_memory_of_hundreds_of_stems_is_counted_as_any(count: int) -> None:
    assert _assert_as_worded(_numbered(count), f"So: {_numbered(count)}.").match == Match(count, count, 1_000_000)
    least = needed_stems(count)
    assert _assert_as_worded(_numbered(count), _numbered(least)).match is not None
    assert _assert_as_worded(_numbered(count), _numbered(least - 1)).match is None


def _assert_kindred(word: str) -> None:
    meant = significant(word)
    assert ({meant} - {""} | AGAINST.get(meant, set())) <= kindred(stem(word)), word


@given(st.text("aeinsydg", max_size=12))
def test_what_a_word_counts_as_and_its_opposites_are_kindred_to_its_stem(word: str) -> None:
    _assert_kindred(word)


@pytest.mark.parametrize("ending", ["", "s", "es", "ed", "ing", "ings", "eds"])
def test_so_are_those_of_every_listed_word(ending: str) -> None:
    for word in (*FAMILY, *OPPOSITES, *NEGATIONS):
        _assert_kindred(word + ending)


@given(_TALK | st.text("aB .!?\u2026\u3002\uff1f\r\n\"')*_\u2028,;"))
def test_a_text_has_no_more_clauses_than_pieces_and_one_sentence_is_not_looked_for_others(text: str) -> None:
    found = clauses.clauses(text)
    assert len(found) <= clauses.pieces(text)
    with patch.object(clauses, "_ENDING", re.compile("")):
        assert clauses.clauses(text) == found


def test_a_memory_is_compared_only_with_the_clauses_that_can_decide() -> None:
    others = [f"You have a red {thing}" for thing in ("kettle", "bicycle", "sofa", "tent", "lamp", "guitar") * 10]
    response = Response(". ".join([*others, "You have a small red car", *others]))
    with patch.object(matching, "is_statement", wraps=matching.is_statement) as compared:
        found = judge("stems/6", response, "The user has a small red car.")
    assert found.match == Match(4, 4, 1_000_000)
    assert compared.call_count == 1
