"""The changes to the ranked candidates before they are packed, and the items that are made of them.

Of two statements that say nearly the same the newer comes first. Candidates that match the question too little are cut.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import islice

from ledger.core.reads import NOWHERE
from ledger.domain.ids import message_id
from ledger.domain.passages import ASSISTANTS, PEOPLE, speaker
from ledger.domain.policy import PolicyState
from ledger.english.alike import ALIKE_CHARS, are_of_other_keys, content_stems, share_stems, stems_in_order
from ledger.english.question import Question
from ledger.english.words import folded, split, stem
from ledger.memories.shown import memories_shown
from ledger.memories.state import MemoryState, since
from ledger.recall.finding import Finder, RecallHit
from ledger.recall.packs import Item, Passage
from ledger.recall.request import RecallRequest
from ledger.values.rules import labels_of
from projections.core.rows import Connection, Scope
from projections.search.passages import MESSAGE, VALUE, PassageRow
from projections.views import conflicts, documents, projects, sessions, values

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


# --- items -----------------------------------------------------------------------------------------------------------


def items_of(
    connection: Connection, hits: Sequence[RecallHit], policies: Mapping[str, PolicyState] | None = None
) -> list[Item]:
    """Return hits as items; ``policies`` are those, by user, that were read on the same snapshot."""
    shown = memories_shown(connection, [hit.memory for hit in hits if hit.memory is not None], policies)
    options = {memory.id: memory for memory in shown}
    disputed = conflicts.open_among(connection, options)
    rows = [hit.passage for hit in hits if hit.passage is not None]
    names, roles = dict[str, str](), dict[int, str]()
    above: dict[int, tuple[str | None, tuple[str, ...], dict[str, object]]] = {}
    if rows:
        names = projects.names(connection, {name for row in rows for name in (row.project, row.session)})
        above |= documents.places(connection, [row.position for row in rows if row.corpus == "chunk"])
        above |= _keys(connection, [row for row in rows if row.corpus == VALUE])
        roles = sessions.roles(connection, {row.position for row in rows if row.corpus == MESSAGE})
    items = []
    for rank, hit in enumerate(hits, 1):
        memory = options[hit.memory.id] if hit.memory is not None else None
        passage = _passage(hit.passage, names, above, roles) if hit.passage is not None else None
        items.append(
            Item(
                rank=rank,
                score=round(hit.candidate.score, 6),
                match=round(hit.candidate.match, 6),
                source=hit.passage.corpus if hit.passage is not None else hit.candidate.corpus,
                id=memory.id if memory is not None else passage.id if passage is not None else "",
                content=memory.content if memory is not None else passage.content if passage is not None else None,
                signals={name: round(value, 6) for name, value in hit.candidate.signals.items()},
                memory=memory,
                passage=passage,
                conflicts=disputed.get(memory.id, ()) if memory is not None else (),
            )
        )
    return items


def _keys(
    connection: Connection, rows: Sequence[PassageRow]
) -> dict[int, tuple[None, tuple[str, ...], dict[str, object]]]:
    """Return the labels and the key of the value of each passage, by the position of the passage."""
    states = values.by_row(connection, {row.subject for row in rows})
    return {
        row.position: (None, (*labels_of(state.place), state.name), {})
        for row in rows
        if (state := states.get(row.subject)) is not None and state.place is not None and state.name is not None
    }


def _passage(
    row: PassageRow,
    names: dict[str, str],
    above: dict[int, tuple[str | None, tuple[str, ...], dict[str, object]]],
    roles: dict[int, str],
) -> Passage:
    document, heading_path, metadata = above.get(row.position, (None, (), {}))
    return Passage(
        id=row.id,
        field=row.field,
        start=row.start,
        end=row.until,
        content=row.text,
        user=row.user,
        project=names.get(row.project, row.project) if row.project else None,
        session=names.get(row.session, row.session) if row.session else None,
        occurred_at=row.time,
        position=row.position,
        document=document,
        heading_path=heading_path,
        speaker=spoken_by(row.corpus, row.field, roles.get(row.position, ""), row.speaker or "", row.text),
        message=message_id(row.id, row.position) if row.corpus == MESSAGE else None,
        metadata=metadata,
    )


SPEAKERS = {"prompt": "user", "response": "assistant"}  # the speakers of an interaction's texts


def spoken_by(corpus: str, field: str, role: str, name: str, text: str) -> str:
    """Return the ``speaker`` of a passage. A folded name is left out if the text begins with it."""
    if corpus == "chunk":
        return ""
    role = role or SPEAKERS.get(field, "")
    known = (*PEOPLE, *ASSISTANTS, "", folded(speaker(text)[0]))
    return role if name in known else f"{role} ({name})"


def searched_in(connection: Connection, user: str, project: str | None, about: str | None) -> Scope:
    """Return the scope of a pack: a named project and no project, no project (""), or all projects that are not archived."""
    if project is None:
        return projects.archived(connection, user)
    return [None, *projects.together(connection, about)]


def nowhere_warning(about: str | None, project: str | None) -> tuple[str, ...]:
    """Return a warning if the user has no project of this name."""
    return (
        (f"this user has no project {project!r:.60}: only texts without a project are considered",)
        if about == NOWHERE
        else ()
    )
