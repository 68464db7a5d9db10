"""The commands on documents: take in a file or a text, remove and restore."""

from __future__ import annotations

import os
from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from ledger.documents import answers, queries
from ledger.documents.files import SUFFIXES, read_document
from ledger.domain import chunking
from ledger.domain import document as domain
from ledger.domain.document import Document
from ledger.domain.errors import NotFoundError, RejectedError, SuspendedError
from ledger.domain.events import ChunkAdded, DocumentAdded, DocumentReplaced
from ledger.domain.metadata import checked
from ledger.domain.text import check_reason, check_text, tag_list
from ledger.engine.engine import Engine
from ledger.engine.log_reading import read_event
from ledger.engine.who import Who
from ledger.engine.work import Outcome, Work
from ledger.guards.guarding import Taken
from ledger.types import Metadata
from projections.core.rows import Connection
from projections.views import control, documents


class _Text(Struct, frozen=True):
    """A text as it was given, and cut: ``kind`` by which rules, ``pieces`` into what, if it had to be."""

    text: str
    path: str
    digest: str
    kind: str
    pieces: tuple[chunking.Piece, ...] | None


def add(
    engine: Engine,
    asker: Who,
    source: str | os.PathLike[str],
    *,
    title: str = "",
    tags: Iterable[str] | None = None,
    metadata: Metadata | None = None,
    project: str | None = None,
    path: str | None = None,
    doc_type: str | None = None,
) -> answers.Document:
    """Takes a document in, cut into chunks along its headings. A ``str`` is its text, a ``pathlib.Path`` a file.

    A document is known by its ``path`` (of a file its absolute path, unless another is given), or if it has none by
    its text. The same again changes nothing (``absorbed``); another text replaces the one it had, and the chunks
    that stay the same keep their ids; one that was removed is restored. What is not given of ``title``, ``tags``,
    ``metadata`` and ``project`` stays; a new document is called by its front matter, its first heading, or its file.

    ``doc_type`` is "markdown", or "text" for what has no headings (as files that end in .txt). ``RejectedError`` for what
    is no UTF-8 text, blank, larger than 50 MiB, a directory, a device, or a link out of its own directory.
    """
    text, name = _given(source, path)
    text, taken = _without_secrets(engine, text, asker.user)
    labels = tag_list(tags) if tags is not None else None
    if title:
        check_text("title", title, max_bytes=domain.TITLE_BYTES)
    given = _cut(engine, text, name, doc_type, asker.user)
    command = domain.TextAdded(
        digest=given.digest,
        size=len(text),
        pieces=(),
        fresh=(),
        prints=(),
        path=name,
        title=title or None,
        tags=labels,
    )
    pairs = None if metadata is None else checked(metadata)

    def body(work: Work) -> str:
        work.taken.update(taken)
        described = replace(command, metadata=None if pairs is None else work.cleaned(pairs))
        return _add_text(work, given, described, project, doc_type)

    arguments = (given.digest, name, title, labels, project, doc_type, *(() if pairs is None else (pairs,)))
    outcome = engine.writer.run("documents.add", asker, body, arguments)
    return _answered(engine, outcome)


def _without_secrets(engine: Engine, text: str, user: str) -> tuple[str, dict[str, tuple[Taken, ...]]]:
    """The text as it is taken in, whole: cut first, a secret could lie in two chunks. Equal texts stay equal."""
    with engine.snapshot() as snapshot:
        policy = control.policy(snapshot.connection, user).secrets
    taken: dict[str, tuple[Taken, ...]] = {}
    return (engine.writer.guard.without_secrets(text, taken) if policy == "redact" else text), taken


def _cut(engine: Engine, text: str, path: str, doc_type: str | None, user: str) -> _Text:
    """The text in pieces, outside the lock; not those of one that is known as it is."""
    digest = engine.writer.mac("document", user, text).hex()
    with engine.snapshot() as snapshot:
        known = documents.known_as(snapshot.connection, user, path, digest)
    kind = doc_type or (known.doc_type if known is not None else SUFFIXES.get(_suffix(path), "markdown"))
    if kind not in chunking.KINDS:
        raise RejectedError(f"a document is one of {', '.join(chunking.KINDS)}, and not {kind!r:.40}")
    is_known = known is not None and known.digest == digest and known.doc_type == kind
    return _Text(text, path, digest, kind, None if is_known else tuple(chunking.chunks(text, kind)))


def remove(engine: Engine, asker: Who, id: str, reason: str = "") -> answers.Document:
    """Takes a document out of use, with its chunks; what was remembered from it stays. ``restore_document`` brings it
    back, and so does taking it in again."""
    return _on_document(engine, asker, "documents.remove", id, domain.Remove(check_reason("reason", reason)))


def restore(engine: Engine, asker: Who, id: str, reason: str = "") -> answers.Document:
    """Brings a removed document back."""
    return _on_document(engine, asker, "documents.restore", id, domain.Restore(check_reason("reason", reason)))


def _on_document(
    engine: Engine, asker: Who, verb: str, id: str, command: domain.Remove | domain.Restore
) -> answers.Document:
    def body(work: Work) -> str:
        state: Document = work.load(id, "d")
        work.project = state.project
        for event in domain.decide(command, state):
            work.emit(state.id, event, first=state.row)
        return state.id

    return _answered(engine, engine.writer.run(verb, asker, body, (id, command)))


def _answered(engine: Engine, outcome: Outcome) -> answers.Document:
    if outcome.state is None:
        raise SuspendedError(
            f"recorded at position {outcome.position}, but the projection 'documents' was suspended by it, "
            "so the document cannot be shown; maintenance.rebuild() makes it again",
        )
    recorded = [event.data for event in outcome.events]
    dropped = sum(last - first + 1 for data in recorded if isinstance(data, DocumentReplaced)
                  for first, last in data.removed)  # fmt: skip
    added = sum(isinstance(data, ChunkAdded) for data in recorded)
    with engine.snapshot() as snapshot:
        answer = queries.get(snapshot, outcome.state.user, outcome.subject)
    if answer is None:
        raise NotFoundError(f"the document {outcome.subject} was undone meanwhile")
    flags = {"replayed": outcome.replayed, "absorbed": outcome.absorbed}
    return replace(answer, added=added, dropped=dropped, warnings=outcome.warnings, **flags)


def _add_text(work: Work, given: _Text, command: domain.TextAdded, project: str | None, doc_type: str | None) -> str:
    """Decides about a text under the lock: what it was cut into is of use unless somebody came first."""
    connection, user = work.connection(), work.who.user
    work.rows.flush()
    _refuse_distrusted(work, connection, given)
    known = documents.known_as(connection, user, given.path, given.digest)
    state: Document | None = work.load(known.id, "d") if known is not None else None
    kind = given.kind if state is None else state.doc_type
    if doc_type is not None and kind != doc_type:
        raise RejectedError(
            f"{state.id if state is not None else ''} is a document of the type {kind}, and stays one; "
            f"to take it in as {doc_type}, erase it or give it another path",
            rule="transition",
        )
    work.project = work.project_named(project) or (state.project if state is not None else None)
    command = replace(command, project=work.project, doc_type=kind)
    if state is not None and domain.is_known(command, state):
        work.absorbed = state.status == "active"
    if state is None or state.digest != command.digest:
        command = _with_pieces(work, connection, command, given, state)
    stream = work.new_id("d") if state is None else state.id
    for event in domain.decide(command, state):
        work.emit(stream, event, first=state.row if state is not None else 0)
    return stream


def _with_pieces(
    work: Work, connection: Connection, command: domain.TextAdded, given: _Text, state: Document | None
) -> domain.TextAdded:
    cut = given.pieces if given.kind == command.doc_type else None
    pieces = cut if cut is not None else tuple(chunking.chunks(given.text, command.doc_type))
    known: list[int | None] = []
    if state is not None:
        known = [None] * state.chunks
        for chunk in documents.chunks(connection, state.row):
            if chunk.index < len(known):
                known[chunk.index] = chunk.fingerprint
    user = work.who.user
    prints = [documents.chunk_fingerprint(work.secret, user, each.content, each.heading_path) for each in pieces]
    fresh = [work.new_id("c") for _ in pieces]
    return replace(
        command, pieces=pieces, fresh=fresh, prints=prints, known=known, called=_called(given, command.doc_type)
    )


def _called(given: _Text, kind: str) -> str:
    """What a document is called for which nobody gave a title."""
    found = chunking.title(given.text, kind) or os.path.basename(given.path) or chunking.first_words(given.text)
    return found.encode()[: domain.TITLE_BYTES].decode("utf-8", "ignore")


def _refuse_distrusted(work: Work, connection: Connection, given: _Text) -> None:
    """A document that is distrusted does not come back as a new one."""
    for each in control.refused(connection):
        if (each.user, each.kind) != (work.who.user, "document"):
            continue
        sql = "SELECT position FROM events WHERE stream = ? AND type IN ('DocumentAdded', 'DocumentReplaced')"
        for (position,) in connection.execute(sql, (each.source,)).fetchall():
            event = read_event(connection, position)
            data = event.data if event is not None else None
            same_path = isinstance(data, DocumentAdded) and given.path and data.path == given.path
            if same_path or getattr(data, "digest", None) == given.digest:
                raise RejectedError(
                    f"the document {each.source} is distrusted; somebody has to end that by history.trust() "
                    "before it is added again",
                    rule="trust",
                    subject=each.source,
                )


def _given(source: str | os.PathLike[str], path: str | None) -> tuple[str, str]:
    """The text, and the path that the document is known by: "" for none."""
    if path is not None:
        check_text("path", path, max_bytes=domain.PATH_BYTES)
    if isinstance(source, os.PathLike):
        text, name = read_document(source)
        if len(name.encode()) > domain.PATH_BYTES and path is None:
            raise RejectedError(f"the path takes more than {domain.PATH_BYTES:,} bytes: give a shorter one with path=")
        what = f"the file {name!r:.200}"
    elif isinstance(source, str):
        text, name, what = source, "", "the text"
    else:
        raise RejectedError(
            f"a document is a text (str) or a file (pathlib.Path), and not a {type(source).__name__}; "
            "for the bytes of a file decode them first"
        )
    check_text(what, text, max_bytes=domain.TEXT_BYTES)
    if "\0" in text:
        raise RejectedError(f"{what} holds a NUL character, so it is no text")
    return text, path if path is not None else name


def _suffix(path: str) -> str:
    return os.path.splitext(path)[1].lower()
