"""What is done to the ranked candidates before they are packed: the newer of two statements first, and a floor of match."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import islice

from ledger.domain.alike import ALIKE_CHARS, content_stems, share_stems
from ledger.domain.memory import Memory, since
from ledger.domain.question import Question, split
from ledger.recall.asked import Asked
from ledger.recall.finding import Finder, Found
from projections.search.stems import stem

PART = 0.15
"""The newer statement is moved where its score is at least this part of the older one's."""

COSINE = 0.6
"""Two statements that both have vectors say nearly the same from this cosine on, if they share their stems too."""

AHEAD, MOST = 5, 60  # items behind the limit that are compared too; items that are compared at the most

FLOOR = 0.5
"""With vectors a memory or chunk that matches less than this part of the best match is cut, unless a floor is given."""

Cosines = Mapping[tuple[int, int], float]
"""The cosines of memories by their rows, the smaller row first."""


def ordered(finder: Finder, asked: Asked, question: Question) -> tuple[list[Found], list[Found]]:
    """Return the candidates in the order in which they are packed, and those that match too little."""
    ranked, of_best = finder.ranked(), 0.0
    if asked.scored:
        rows = [memory.row for _, memory in _statements(ranked, asked.k)]
        ranked = newer_first(ranked, asked.k, finder.cosines_among(rows))
        if any(each.candidate.cosine is not None for each in ranked):
            of_best = FLOOR  # rubino fills up with what does not match
    if not asked.min_match and (asked.min_match is not None or not of_best):
        set_named(ranked if asked.explain else ranked[: asked.k], finder, question)
        return ranked, []
    set_named(ranked, finder, question)
    return floored(ranked, asked.min_match, of_best)


def newer_first(ranked: list[Found], limit: int, cosines: Cosines) -> list[Found]:
    """Return the ranked items, each memory directly before the first older one that says nearly the same.

    A memory moves once at the most. It has the score of the older one from then on, and the factor ``newer`` says by how
    much that is more.
    """
    top = _statements(ranked, limit)
    stems = cache(content_stems)
    moved: set[int] = set()
    before: dict[int, list[Found]] = {}
    for at, (older, old) in enumerate(top):
        if old.row in moved:
            continue
        score, of_old = older.candidate.score, since(old)
        for newer, new in islice(top, at + 1, None):
            part = newer.candidate.score / score
            if part < PART:
                break
            if new.row in moved or new.project != old.project or since(new) < of_old:
                continue
            cosine = cosines.get((min(old.row, new.row), max(old.row, new.row)), 1.0)
            if cosine >= COSINE and share_stems(stems(old.content or ""), stems(new.content or "")):
                moved.add(new.row)
                before.setdefault(old.row, []).append(newer)
                newer.candidate.signals["newer"], newer.candidate.score = 1 / part, score
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


def _statements(ranked: Sequence[Found], limit: int) -> list[tuple[Found, Memory]]:
    """Return the first items that are short active memories: what can be newer or older than another."""
    first = ((each, each.memory) for each in ranked[: min(limit + AHEAD, MOST)])
    return [
        (each, memory)
        for each, memory in first
        if memory is not None and memory.status == "active" and len(memory.content or "") <= ALIKE_CHARS
    ]


def _since(found: Found) -> tuple[str, int]:
    """Since when a memory holds."""
    return since(found.memory) if found.memory is not None else ("", 0)


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
    """Return what matches enough, and what does not: ``least``, or without one a part of what the best memory or chunk matches.

    A turn is found by its neighbors and its session too, so it has a floor only where one is given. What was moved before an
    older statement stays or goes together with that one, so that the floor leaves no outdated statement alone.
    """
    exempt = "turn" if least is None else ""
    if least is None:
        least = of_best * max((each.candidate.match for each in found if each.candidate.corpus != exempt), default=0.0)
    kept, weak, group = list[Found](), list[Found](), list[Found]()
    for each in found:
        group.append(each)
        if "newer" in each.candidate.signals:
            continue  # the older one follows
        matches = any(one.candidate.corpus == exempt or one.candidate.match >= least for one in group)
        (kept if matches else weak).extend(group)
        group.clear()
    return kept, weak
