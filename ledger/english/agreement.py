"""The comparison of a memory's clause with a response's clause for stems/6: whether they say the same of the same subject."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import takewhile

from ledger.english.clauses import (
    DENYING,
    FACTIVE,
    ME,
    NONE,
    SOMEBODY,
    USER,
    YOU,
    YOURS,
    Clause,
    is_between,
    is_foreign,
    is_modal,
    is_stated,
    is_subject,
    is_verbal,
    others_in,
    supposes,
    tells,
    was,
)
from ledger.english.meaning import AGAINST, significant
from ledger.english.words import stem

ALL_STEMS = 3
"""A memory of at most this many stems needs all of them (our choice)."""

OTHERS_STEMS = 5
"""A statement about somebody besides the user needs all stems of a clause, up to this many (our choice): grammar is not read
there."""

PLAIN_STEMS, PLAIN_PERCENT = 4, 70
"""A clause that has this many stems of a memory's clause, and at least this share, in the same sense throughout, says the
memory whatever its grammar (our choice)."""

QUALIFIED = frozenset(("almost", "nearly"))
BYGONE = frozenset(("old", "ex", "last", "previous", "former", "first"))
WOULD = frozenset(("youd", "youll"))

_HAVING = frozenset(map(significant, ["owns", "drives", "rides", "uses", "works", "keeps", "rents"]))
"""The user's actions with a thing that a response may call "your" thing."""


def is_statement(part: Clause, clause: Clause) -> bool:
    """Return True if a response's clause is about the world, as the memory's clause is, and about nobody else's things."""
    return (
        clause.notes <= part.notes
        and is_foreign(clause) <= is_foreign(part)
        and all(owner in part.stems and thing in part.stems for owner, thing in clause.owned)
    )


def is_of_same(part: Clause, clause: Clause) -> bool:
    """Return True if a response's clause has the subject of a memory's clause, and no other."""
    if not others_in(clause) <= others_in(part) - ME:
        return False
    if not _is_of_user(part):
        subject = part.who or next((stem(word) for word in part.words if tells(word)), "")
        return subject in clause.stems and USER.isdisjoint(clause.all)
    first = next((at for at, word in enumerate(clause.words) if word in USER), None)
    if first is None:
        return clause.who == SOMEBODY
    return clause.words[first] in YOU or _is_in(_content_word_after(clause.words, first), part)


def _is_of_user(part: Clause) -> bool:
    return part.who == SOMEBODY or not (USER | ME).isdisjoint(part.all)


def confirmed(part: Clause, clause: Clause) -> frozenset[str]:
    """Return the stems of a memory's clause that a response's clause states, or none if a needed one is missing."""
    shared = part.having(clause)
    if not part.over <= clause.over | clause.denied:
        return NONE
    if any(own in shared for word in clause.past - part.past for own in (stem(word), *_stems_of(word, part))):
        return NONE
    if _is_of_user(part):
        shared = _of_user(part, clause, shared)
    elif len(shared) < least_stated(part) or not _is_plain(part, clause):
        return NONE
    if not part.figures <= shared or any(shared.isdisjoint(name) for name in part.names):
        return NONE
    return shared


def least_stated(part: Clause) -> int:
    """Return the fewest stems of a memory's clause that a response's clause must have to state it."""
    return 1 if _is_of_user(part) else min(len(part.stems), OTHERS_STEMS)


def _is_plain(part: Clause, clause: Clause) -> bool:
    """Return True if the whole clause has the sense of a memory's clause, wherever its words of doubt stand."""
    same = (
        clause.negative == part.negative,
        clause.modal <= part.modal,
        clause.supposed <= part.supposed,
        clause.was <= part.was,
    )
    return all(same) and is_of_same(part, clause)


def _stems_of(word: str, part: Clause) -> Iterator[str]:
    meaning = significant(word)
    return (own for own, other_meaning in part.meanings.items() if other_meaning == meaning)


def _of_user(part: Clause, clause: Clause, shared: frozenset[str]) -> frozenset[str]:
    """Return the shared stems if a response says what the user is, has or does, else none.

    That is "you" with a telling word of the memory, or "your" with words of the memory only.
    """
    at = next((at for at, word in enumerate(part.words) if word in USER or word in ME), -1)
    if at < 0:
        return shared if len(shared) >= min(len(part.stems), OTHERS_STEMS) and _is_plain(part, clause) else NONE
    following = part.words[at + 1] if at < len(part.words) - 1 else ""
    thing = _content_word_after(part.words, at) if part.words[at] in YOURS | {"my", "mine"} else ""
    verb = following if tells(following) and not is_between(following) and not thing else ""
    run = max(_runs(part, clause, verb, thing), key=len, default=NONE)
    if thing:
        return run if stem(thing) in run else NONE
    if any(_says(verb, start, place, part, clause) for start, place in _predicates(part, clause)):
        return shared
    possessed = (
        following in ("has", "have") or significant(verb) in _HAVING or len(run) >= max(ALL_STEMS, len(part.stems) - 1)
    )
    if (
        len(shared) >= max(PLAIN_STEMS, _at_least(PLAIN_PERCENT, len(part.stems)))
        and _is_plain(part, clause)
        and not clause.past
        and "who" not in clause.all - part.all
        and not any(
            before in ("than", "that") and word in YOU and earlier not in FACTIVE and not _is_in(earlier, part)
            for earlier, before, word in zip(("", *clause.words), clause.words, clause.words[1:], strict=False)
        )
    ):
        return shared
    return run if possessed and not clause.past else NONE


def _says(verb: str, start: int, place: int, part: Clause, clause: Clause) -> bool:
    """Return True if the predicate at a place is the memory's verb or word, soon followed by another word of the memory."""
    spoken = clause.words
    subject, word = (spoken[start] if start >= 0 else ""), spoken[place]
    if not verb:  # "You have a dog", "You have a small dog"
        return _is_in(word, part) or (place > start + 1 and _is_before(spoken, place, part))
    if subject in YOU - {SOMEBODY} and word == verb and word.endswith("s") and stem(word) != word:
        return False  # "the man next to you plays"
    if significant(word) != significant(verb):
        return False
    following = next((at for at in range(place + 1, len(spoken)) if tells(spoken[at])), None)
    return (
        following is None
        or _is_in(spoken[following], part)
        or _is_before(spoken, following, part)
        or (
            start > 0 and _is_in(spoken[start - 1 - (spoken[start - 1] == "that")], part)  # "the milk (that) you drink"
        )
    )


def _is_before(spoken: Sequence[str], at: int, part: Clause) -> bool:
    """Return True for a word, such as an adjective, right before a word of a memory."""
    qualifies = spoken[at] not in QUALIFIED and not spoken[at].endswith("ing")
    return qualifies and at + 1 < len(spoken) and _is_in(spoken[at + 1], part)


def _predicates(part: Clause, clause: Clause) -> Iterator[tuple[int, int]]:
    """Yield the places of each "you", or "and" in a clause about the user, with its predicate's.

    The predicate is the telling word that follows after only auxiliaries and adverbs.
    """
    spoken, carried = clause.words, clause.who == SOMEBODY and is_of_same(part, clause)
    starts = [at for at, word in enumerate(spoken) if word in YOU and is_subject(spoken, at, part.stems)]
    starts += [at for at, word in enumerate(spoken) if word in ("and", "or") and carried]
    for start in (*starts, -1) if carried and USER.isdisjoint(clause.all) else starts:
        if start >= 0 and spoken[start] in WOULD and not part.modal:
            continue
        at = start + 1
        while at < len(spoken) and (is_between(spoken[at]) or (part.modal and is_verbal(spoken[at]))):
            at += 1
        if at < len(spoken) and tells(spoken[at]) and _is_in_sense(part, clause, at):
            yield start, at


def _is_in_sense(part: Clause, clause: Clause, at: int) -> bool:
    """Return True if the words before a place suppose, deny or date no more than the memory does.

    Words that make a statement doubtful stand before it.
    """
    before = clause.words[:at]
    denies = clause.negative and not DENYING.isdisjoint(before)
    doubts = clause.carried or supposes(before) or supposes(clause.words[-1:])
    return denies == (not DENYING.isdisjoint(part.words)) and doubts <= part.supposed and was(before) <= part.was


def _runs(part: Clause, clause: Clause, verb: str, thing: str) -> Iterator[frozenset[str]]:
    """Yield the words of a memory that follow each "your", with the names before it.

    Another word may stand between only before a name or two words of the memory.
    """
    spoken = clause.words
    for at, word in enumerate(spoken):
        if not _is_possession(part, clause, at, thing):
            continue
        run, before = {SOMEBODY}, spoken[:at]
        if (
            not before
            or is_verbal(before[-1])
            or before[-1] == "as"
            or not any(tells(word_before) and not _is_in(word_before, part) for word_before in before)
        ):
            run |= (clause.stems - set(map(stem, spoken))) & part.stems  # "Ana is your sister", "Ana, your sister"
            run |= part.figures.union(*part.names).intersection(map(stem, before))
        if before and before[-1] in ("is", "are"):  # "main is your branch"
            run.update(map(stem, takewhile(lambda word_before: _is_in(word_before, part), before[-2::-1])))
            run &= part.stems
        if verb and before and significant(before[-1]) == significant(verb):  # "Take your pills"
            run.add(stem(verb))
        skipped = False
        for place in range(at + 1, len(spoken)):
            following = spoken[place]
            if (
                (is_modal(following) and not _is_in(following, part))
                or was([following]) > part.was
                or (place > at + 1 and verb and significant(following) == significant(verb))
            ):
                break
            if tells(following) and significant(following) and not _is_in(following, part):
                if skipped or following in BYGONE or not _is_thing(spoken[place + 1 : place + 3], part):
                    break
                skipped = True
            run |= {stem(following), *_stems_of(following, part)} & part.stems
        if len(run) > 1 and (word != "the" or run == part.stems):
            yield frozenset(run)


def _is_possession(part: Clause, clause: Clause, at: int, thing: str) -> bool:
    """Return True if the word at a place is "your" of an existing thing, or "the" of the thing that a memory names."""
    spoken, before = clause.words, clause.words[max(at - 1, 0) : at]
    if spoken[at] == "the" and thing and spoken[at + 1 : at + 2] == (thing,):
        return USER.isdisjoint(clause.all) and _is_plain(part, replace(clause, who=SOMEBODY))
    return (
        spoken[at] in YOURS
        and (is_stated(spoken, at) or before[0] in ("until", "till", "before", "after", "than") or is_verbal(before[0]))
        and was(before) <= part.was
        and not clause.carried
        and not supposes(clause.words[:at])
        and DENYING.isdisjoint(clause.words[:at])
        and others_in(clause) - ME <= others_in(part)
    )


def _is_thing(following: Sequence[str], part: Clause) -> bool:
    """Return True if the following words are a name of a memory, or two words of it."""
    named = bool(following) and any(stem(following[0]) in name for name in part.names)
    return named or (len(following) == 2 and all(_is_in(word, part) for word in following))


def _content_word_after(spoken: Sequence[str], at: int) -> str:
    return next((word for word in spoken[at + 1 :] if tells(word)), "")


def _is_in(word: str, part: Clause) -> bool:
    return bool(word) and (stem(word) in part.stems or any(_stems_of(word, part)))


def differing(part: Clause, clause: Clause) -> tuple[str, frozenset[str]]:
    """Return (how, stems) by which a response's clause denies a memory's clause, or ("", none).

    It denies or ends the memory's statement, states what the memory denies, or states the opposite.
    """
    own = part.denied | part.over
    shared = part.stems & clause.stems
    if clause.modal > part.modal:
        return "", NONE
    if over := part.among(clause.over) - own:
        return "past", shared | over
    denied = part.among(clause.denied) - own
    if part.denied and (
        stated := part.denied & {*clause.stems, *clause.meanings.values()} - clause.denied - clause.over
    ):
        denied |= part.among(stated)
    if denied:
        return "negation", shared | denied
    if part.opposable and clause.opposable and (turned := _opposites(part, clause)):
        return "opposite", shared | turned
    return "", NONE


def can_differ(part: Clause, clause: Clause) -> bool:
    """Return False if ``differing`` finds nothing for these clauses, because neither turns anything round."""
    return bool(clause.over or clause.denied or part.denied or (part.opposable and clause.opposable))


def _opposites(part: Clause, clause: Clause) -> frozenset[str]:
    """Return the stems of a memory's clause whose opposite, and not whose meaning, the other clause states."""
    meant = set(clause.meanings.values())
    stated = {meaning for own, meaning in clause.meanings.items() if own not in clause.denied | clause.over}
    return frozenset(
        own
        for own, meaning_of_own in part.meanings.items()
        if meaning_of_own not in meant
        and own not in clause.stems
        and not stated.isdisjoint(AGAINST.get(meaning_of_own, ()))
    )


def _at_least(percent: int, total: int) -> int:
    return -(-percent * total // 100)
