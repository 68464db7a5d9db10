"""The changes to the ranked candidates before they are packed.

Of two statements that say nearly the same the newer comes first. Candidates that match the question too little are cut.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import islice

from ledger.english.alike import ALIKE_CHARS, are_of_other_keys, content_stems, share_stems, stems_in_order
from ledger.english.porter import stem
from ledger.english.question import Question
from ledger.english.words import split
from ledger.memories.state import MemoryState, since
from ledger.recall.finding import Finder, RecallHit
from ledger.recall.request import RecallRequest

PART = 0.15
"""The newer statement is moved if its score is at least this part of the older statement's score."""

COSINE = 0.6
"""Two statements that both have vectors say nearly the same from this cosine on, if they share their stems too."""

NEAREST = 0.5
"""Two statements, each of which is the other's nearest among those compared, say nearly the same from this cosine on.

They need no stem in common ("I live in Lisbon.", "I have moved to Porto."). Chosen on
``tests/corpus/reworded_updates.jsonl``.
"""

AHEAD, MOST = 5, 60  # the items after the limit that are compared too; the most items that are compared

FLOOR = 0.5
"""With vectors a memory or chunk that matches less than this part of the best match is cut, unless a floor is given."""

Cosines = Mapping[tuple[int, int], float]
"""The cosines of memories by their rows, the smaller row first."""


def ordered(finder: Finder, request: RecallRequest, question: Question) -> tuple[list[RecallHit], list[RecallHit]]:
    """Return the candidates in the order in which they are packed, and the candidates that match too little."""
    ranked, of_best = finder.ranked(), 0.0
    if finder.newer_first:
        rows = [memory.row for _, memory in _statements(ranked, request.limit)]
        asked = [frozenset(map(stem, forms)) for forms in question.concepts] if question.is_open else []
        ranked = newer_first(ranked, request.limit, finder.cosines_among(rows), asked)
        if any(hit.candidate.cosine is not None for hit in ranked):
            of_best = FLOOR
    if not request.min_match and (request.min_match is not None or not of_best):
        set_named(ranked if request.explain else ranked[: request.limit], finder, question)
        return ranked, []
    set_named(ranked, finder, question)
    return floored(ranked, request.min_match, of_best)


def newer_first(
    ranked: list[RecallHit], limit: int, cosines: Cosines, asked: Sequence[frozenset[str]] = ()
) -> list[RecallHit]:
    """Return the ranked items, each memory directly before the first older memory that says nearly the same.

    A memory moves at most once. It takes the score of the older memory, and the factor ``newer`` says by how much that is more.
    It does not move before a memory on another thing that an open question is about: a memory that has a name or figure of the
    question which the newer memory lacks, or that is of one form with the newer memory and has another key. Asked what Gus's
    gym is, a newer statement on Hana's gym is no news.

    Args:
        ranked: The items, best first.
        limit: The most items of the pack.
        cosines: The cosines of the memories.
        asked: The stems of each telling word of an open question, with its other forms.
    """
    top = [(hit, memory, since(memory)) for hit, memory in _statements(ranked, limit)]
    nearest = _nearest_of_each_other(cosines)
    stems, names, in_order = cache(content_stems), cache(_name_stems), cache(stems_in_order)
    moved: set[int] = set()
    before: dict[int, list[RecallHit]] = {}
    for at, (older, old, of_old) in enumerate(top):
        if old.row in moved:
            continue
        score = older.candidate.score
        for newer, new, of_new in islice(top, at + 1, None):
            part = newer.candidate.score / score
            if part < PART:
                break
            if new.row in moved or new.project != old.project or of_new < of_old:
                continue
            rows = (min(old.row, new.row), max(old.row, new.row))
            said, said_newer = old.content or "", new.content or ""
            is_near = cosines.get(rows, 1.0) >= COSINE and share_stems(stems(said), stems(said_newer))
            if not is_near and rows not in nearest:
                continue
            if any(word & names(said) and not word & stems(said_newer) for word in asked):
                continue
            if asked and are_of_other_keys(asked, in_order(said), in_order(said_newer)):
                continue
            moved.add(new.row)
            before.setdefault(old.row, []).append(newer)
            newer.candidate.signals["newer"], newer.candidate.score = 1 / part, score
    if not moved:
        return ranked
    ordered_hits: list[RecallHit] = []
    for hit in ranked:
        row = hit.memory.row if hit.memory is not None else None
        if row in moved:
            continue
        ordered_hits += sorted(before.get(row, ()) if row is not None else (), key=_since, reverse=True)
        ordered_hits.append(hit)
    return ordered_hits


def _nearest_of_each_other(cosines: Cosines) -> set[tuple[int, int]]:
    """Return the pairs of rows of which each is the other's nearest, with a cosine of at least ``NEAREST``."""
    nearest: dict[int, tuple[float, int]] = {}
    for (row, other_row), cosine in cosines.items():
        if cosine >= NEAREST:
            nearest[row] = max(nearest.get(row, (0.0, 0)), (cosine, other_row))
            nearest[other_row] = max(nearest.get(other_row, (0.0, 0)), (cosine, row))
    pairs = {(row, other_row) for row, (_, other_row) in nearest.items()}
    return {(row, other_row) for row, other_row in pairs if row < other_row and (other_row, row) in pairs}


def _name_stems(text: str) -> frozenset[str]:
    """Return the stems of the words of a statement that may be names or figures: with a capital or a digit in front."""
    names = (word for word in re.findall(r"\w+", text) if word[0].isupper() or word[0].isdigit())
    return frozenset(stem(word) for name in names for word in split(name))


def _statements(ranked: Sequence[RecallHit], limit: int) -> list[tuple[RecallHit, MemoryState]]:
    """Return the first items that are short active memories: only these are compared."""
    first = ((hit, hit.memory) for hit in ranked[: min(limit + AHEAD, MOST)])
    return [
        (hit, memory)
        for hit, memory in first
        if memory is not None and memory.status == "active" and len(memory.content or "") <= ALIKE_CHARS
    ]


def _since(hit: RecallHit) -> tuple[str, int]:
    return since(hit.memory) if hit.memory is not None else ("", 0)


# --- a floor ---------------------------------------------------------------------------------------------------------


def set_named(hits: Iterable[RecallHit], finder: Finder, question: Question) -> None:
    """Raise the match of each memory with an entity that the question names.

    The memory then matches at least by the weight of that name: its rarest word against the rarest word of the question.
    """
    named = [(hit.candidate, name) for hit in hits if hit.memory is not None for name in hit.memory.entities]
    if not named:
        return
    text, most, idf = f" {' '.join(map(stem, question.words))} ", 0.0, finder.idf
    for candidate, name in named:
        stems = [stem(word) for word in split(name)]
        if stems and f" {' '.join(stems)} " in text:
            most = most or max((idf(map(stem, forms)) for forms in question.concepts), default=0.0) or 1.0
            candidate.share = max(candidate.share, min(1.0, max(idf([word]) for word in stems) / most))


def floored(hits: Sequence[RecallHit], least: float | None, of_best: float) -> tuple[list[RecallHit], list[RecallHit]]:
    """Return the hits that match enough, and the hits that do not.

    The floor is ``least``, or without it a part of the best match of a memory or chunk. A turn is found by its neighbors and
    its session too, so a turn has a floor only if ``least`` is given. A memory that was moved before an older statement stays
    or goes together with that statement, so that the floor leaves no outdated statement alone.
    """
    exempt = "turn" if least is None else ""
    if least is None:
        least = of_best * max((hit.candidate.match for hit in hits if hit.candidate.corpus != exempt), default=0.0)
    kept, weak, group = list[RecallHit](), list[RecallHit](), list[RecallHit]()
    for hit in hits:
        group.append(hit)
        if "newer" in hit.candidate.signals:
            continue  # its older statement follows and closes the group
        matches = any(member.candidate.corpus == exempt or member.candidate.match >= least for member in group)
        (kept if matches else weak).extend(group)
        group.clear()
    return kept, weak
