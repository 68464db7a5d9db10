"""What is done to the ranked candidates before they are packed: the newer of two statements first, and a floor of match."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

from ledger.domain.memory import since
from ledger.domain.question import Question, split
from ledger.domain.updates import Reading, takes_place
from ledger.recall.asked import Asked
from ledger.recall.finding import Finder, Found
from projections.search.stems import stem

WITHIN, OF_SHORT = 0.3, 0.15
"""The newer statement is moved where its score is at least this part of the older one's; the second where both are short."""

AHEAD, MOST = 5, 60  # items behind the limit that are compared too; items that are compared at the most

FLOOR = 0.5
"""With vectors a memory or chunk that matches less than this part of the best match is cut, unless a floor is given."""


def ordered(finder: Finder, asked: Asked, question: Question) -> tuple[list[Found], list[Found]]:
    """The candidates in the order in which they are packed, and those that match too little."""
    ranked = finder.ranked()
    if asked.ranking == "score/2":  # an earlier ranking keeps its numbers
        ranked = newer_first(ranked, asked.k)
    of_best = 0.0
    if asked.ranking != "rubino/1" and any(each.candidate.cosine is not None for each in ranked):
        of_best = FLOOR  # rubino fills up with what does not match
    if not asked.min_match and (asked.min_match is not None or not of_best):
        set_named(ranked if asked.explain else ranked[: asked.k], finder, question)
        return ranked, []
    set_named(ranked, finder, question)
    return floored(ranked, asked.min_match, of_best)


def newer_first(ranked: list[Found], limit: int) -> list[Found]:
    """The ranked items, a memory directly before the first older one whose place it takes; each moves once at the most.

    It has the score of the older one from then on, and the factor ``newer`` says by how much that is more.
    """
    top = [
        (each, each.memory, Reading(each.memory))
        for each in ranked[: min(limit + AHEAD, MOST)]
        if each.memory is not None and each.memory.status == "active"
    ]
    moved: set[int] = set()
    before: dict[int, list[Found]] = {}
    for at, (older, old, old_text) in enumerate(top):
        if old.row in moved:
            continue
        score, of_old = older.candidate.score, since(old)
        for newer, new, new_text in islice(top, at + 1, None):
            if newer.candidate.score < OF_SHORT * score:
                break
            if newer.candidate.score < WITHIN * score and not (new_text.is_short and old_text.is_short):
                continue
            if new.project != old.project or since(new) < of_old or new.row in moved:
                continue
            if takes_place(new_text, old_text):
                moved.add(new.row)
                before.setdefault(old.row, []).append(newer)
                _raise(newer, older.candidate.score)
    if not moved:
        return ranked
    found: list[Found] = []
    for each in ranked:
        row = each.memory.row if each.memory is not None else None
        if row in moved:
            continue
        found += sorted(before.get(row, ()) if row is not None else (), key=_since, reverse=True)
        found.append(each)
    return found


def _since(found: Found) -> tuple[str, int]:
    """Since when a memory holds."""
    return since(found.memory) if found.memory is not None else ("", 0)


def _raise(newer: Found, score: float) -> None:
    newer.candidate.signals["newer"] = score / newer.candidate.score
    newer.candidate.score = score


# --- a floor ---------------------------------------------------------------------------------------------------------


def set_named(found: Iterable[Found], finder: Finder, question: Question) -> None:
    """A memory that the question names, by one of the entities it was given, matches at least as much as that name weighs:
    its rarest word against the rarest of the question."""
    named = [(each.candidate, name) for each in found if each.memory is not None for name in each.memory.entities]
    if not named:
        return
    text, most, idf = f" {' '.join(map(stem, question.words))} ", 0.0, finder.idf
    for candidate, name in named:
        stems = [stem(word) for word in split(name)]
        if stems and f" {' '.join(stems)} " in text:
            most = most or max((idf(map(stem, forms)) for forms in question.concepts), default=0.0) or 1.0
            candidate.share = max(candidate.share, min(1.0, max(idf([word]) for word in stems) / most))


def floored(found: Sequence[Found], least: float | None, of_best: float) -> tuple[list[Found], list[Found]]:
    """(what matches enough, what does not): ``least``; where none is given, a memory or a chunk that part of the best match.

    A turn is found by its neighbors and its session too, so it has a floor only where one is given. What was moved before an
    older statement is kept where that is: else the floor would leave what is so no more, alone.
    """
    if least is None:
        items = [each.candidate.match for each in found if each.candidate.corpus != "turn"]
        least, exempt = of_best * max(items, default=0.0), "turn"
    else:
        exempt = ""
    kept, weak, moved = list[Found](), list[Found](), list[Found]()
    for each in found:
        if "newer" in each.candidate.signals:
            moved.append(each)  # the older one follows
            continue
        matches = each.candidate.corpus == exempt or each.candidate.match >= least
        for newer in moved:
            (kept if matches or newer.candidate.match >= least else weak).append(newer)
        moved.clear()
        (kept if matches else weak).append(each)
    return kept, weak
