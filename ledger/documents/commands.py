"""The commands on documents: add a file or a text, remove a document, and restore a document."""

from __future__ import annotations

import os
from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from ledger.core.call import Who
from ledger.core.engine import Engine
from ledger.core.guarding import TakenSecret
from ledger.core.reads import read_event
from ledger.core.work import Outcome, Work
from ledger.documents import answers, chunking, given_chunks, queries, rules
from ledger.documents.files import SUFFIXES, read_document
from ledger.documents.rules import DocumentState
from ledger.domain.errors import NotFoundError, RejectedError, SuspendedError
from ledger.domain.metadata import checked
from ledger.domain.text import check_reason, check_text, tag_list
from ledger.events import ChunkAdded, DocumentAdded, DocumentReplaced
from ledger.types import DocumentSource, Metadata
from projections.core.rows import Connection
from projections.views import control, documents


class _DocumentText(Struct, frozen=True):
    """A text of a document, cut into pieces by the rules of its ``kind``; a known text has no pieces.

    ``cut_elsewhere`` is True if the pieces were given, so that they are the same for every kind.
    """

    text: str
    path: str
    digest: str
    kind: str
    pieces: tuple[chunking.ChunkPiece, ...] | None
    cut_elsewhere: bool = False


def add(
    engine: Engine,
    asker: Who,
    source: DocumentSource,
    *,
    title: str = "",
    tags: Iterable[str] | None = None,
    metadata: Metadata | None = None,
    project: str | None = None,
    path: str | None = None,
    doc_type: str | None = None,
) -> answers.Document:
    """Add a document, cut into chunks along its headings. A ``str`` is its text, a ``pathlib.Path`` a file, a list its chunks.

    The ``path`` identifies a document (of a file without ``path``, its absolute path), or without a path the text. The same
    text again changes nothing (``absorbed``). Another text replaces the old text, and chunks that stay the same keep their
    ids. A removed document is restored. If ``title``, ``tags``, ``metadata`` or ``project`` is missing, the present value stays.
    A new document without a title gets the title of its front matter, its first heading, or its file name.

    ``doc_type`` is "markdown", or "text" for a text without headings, such as a file that ends in .txt.

    Raises:
        NotFoundError: There is no such file.
        RejectedError: The source is not UTF-8 text, blank, larger than 50 MiB, a directory, a device, or a link out of
            its own directory.
    """
    taken: dict[str, tuple[TakenSecret, ...]] = {}
    guard, redacts = engine.writer.guard, _redacts(engine, asker.user)
    pieces: tuple[chunking.ChunkPiece, ...] | None = None
    if isinstance(source, str | os.PathLike):
        text, name = _read(source, path)
        text = guard.without_secrets(text, taken) if redacts else text
    else:
        name = "" if path is None else check_text("path", path, max_bytes=rules.PATH_BYTES)
        pieces = given_chunks.pieces(source, (lambda chunks: guard.cleaned(chunks, taken)) if redacts else None)
        text = "".join(piece.content for piece in pieces)
    labels = tag_list(tags) if tags is not None else None
    if title:
        check_text("title", title, max_bytes=rules.TITLE_BYTES)
    cut_text = _cut(engine, text, name, doc_type, asker.user, pieces)
    command = rules.TextAdded(
        digest=cut_text.digest,
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
        return _add_text(work, cut_text, described, project, doc_type)

    arguments = (cut_text.digest, name, title, labels, project, doc_type, *(() if pairs is None else (pairs,)))
    texts = (cut_text.pieces, name, title, labels, pairs, project)
    outcome = engine.writer.run("documents.add", asker, body, arguments, texts=texts)
    answer = _answer(engine, outcome)
    return replace(answer, warnings=(*answer.warnings, *_names_a_file(source)))


def _names_a_file(source: DocumentSource) -> tuple[str, ...]:
    """Return a warning for a text that is the name of a file, because the caller may have meant the file."""
    if not isinstance(source, str) or len(source) > rules.PATH_BYTES or not os.path.isfile(source):
        return ()
    return (f"the text {source!r} was added, and not the file of this name; Path({source!r}) adds the file",)


def _redacts(engine: Engine, user: str) -> bool:
    """Return True if the user's policy asks for secrets to be redacted.

    The whole text is redacted before it is cut, because a cut could divide a secret.
    """
    with engine.snapshot() as snapshot:
        return control.policy(snapshot.connection, user).secrets == "redact"


def _cut(
    engine: Engine,
    text: str,
    path: str,
    doc_type: str | None,
    user: str,
    pieces: tuple[chunking.ChunkPiece, ...] | None = None,
) -> _DocumentText:
    """Return the text cut into pieces, outside the lock; a text that is known already is not cut.

    With ``pieces``, which were cut elsewhere, the document is known by all that they say.
    """
    whole = text if pieces is None else given_chunks.digested(pieces)
    digest = engine.writer.mac("document", user, whole).hex()
    with engine.snapshot() as snapshot:
        known = documents.known_as(snapshot.connection, user, path, digest)
    kind = doc_type or (known.doc_type if known is not None else SUFFIXES.get(_suffix(path), "markdown"))
    if kind not in chunking.KINDS:
        raise RejectedError(f"the type of a document is one of {', '.join(chunking.KINDS)}, not {kind!r:.40}")
    if pieces is not None:
        return _DocumentText(text, path, digest, kind, pieces, cut_elsewhere=True)
    is_known = known is not None and known.digest == digest and known.doc_type == kind
    return _DocumentText(text, path, digest, kind, None if is_known else tuple(chunking.chunks(text, kind)))


def remove(engine: Engine, asker: Who, id: str, reason: str = "") -> answers.Document:
    """Take a document and its chunks out of use; memories that came from it stay.

    ``restore`` makes the document active again, and so does ``add``.
    """
    return _on_document(engine, asker, "documents.remove", id, rules.Remove(check_reason("reason", reason)))


def restore(engine: Engine, asker: Who, id: str, reason: str = "") -> answers.Document:
    """Make a removed document active again."""
    return _on_document(engine, asker, "documents.restore", id, rules.RestoreDocument(check_reason("reason", reason)))


def _on_document(
    engine: Engine, asker: Who, verb: str, id: str, command: rules.Remove | rules.RestoreDocument
) -> answers.Document:
    def body(work: Work) -> str:
        state: DocumentState = work.load(id, "d")
        work.project = state.project
        for event in rules.decide(command, state):
            work.emit(state.id, event, first=state.row)
        return state.id

    return _answer(engine, engine.writer.run(verb, asker, body, (id, command)))


def _answer(engine: Engine, outcome: Outcome) -> answers.Document:
    if outcome.state is None:
        raise SuspendedError(
            f"the command was recorded at position {outcome.position}, but it suspended the projection 'documents', "
            "so the document cannot be shown; maintenance.rebuild() folds the projection again",
        )
    recorded = [event.data for event in outcome.events]
    dropped = sum(last - first + 1 for data in recorded if isinstance(data, DocumentReplaced)
                  for first, last in data.removed)  # fmt: skip
    added = sum(isinstance(data, ChunkAdded) for data in recorded)
    with engine.snapshot() as snapshot:
        answer = queries.get(snapshot, outcome.state.user, outcome.subject)
    if answer is None:
        raise NotFoundError(f"the document {outcome.subject} was undone before it could be returned")
    flags = {"replayed": outcome.replayed, "absorbed": outcome.absorbed}
    return replace(answer, added=added, dropped=dropped, warnings=outcome.warnings, **flags)


def _add_text(
    work: Work, cut_text: _DocumentText, command: rules.TextAdded, project: str | None, doc_type: str | None
) -> str:
    """Record a text under the writer's lock; the text is cut again only if another command changed its type meanwhile."""
    connection, user = work.connection(), work.who.user
    work.rows.flush()
    _refuse_distrusted(work, connection, cut_text)
    known = documents.known_as(connection, user, cut_text.path, cut_text.digest)
    state: DocumentState | None = work.load(known.id, "d") if known is not None else None
    kind = cut_text.kind if state is None else state.doc_type
    if doc_type is not None and kind != doc_type:
        raise RejectedError(
            f"the document {state.id if state is not None else ''} has the type {kind}, which cannot change to "
            f"{doc_type}: erase the document, or add the text under another path",
            rule="transition",
        )
    work.project = work.project_named(project) or work.recorded_in(state.project if state is not None else None)
    command = replace(command, project=work.project, doc_type=kind)
    if state is not None and rules.is_known(command, state):
        work.absorbed = state.status == "active"
    if state is None or state.digest != command.digest:
        command = _with_pieces(work, connection, command, cut_text, state)
    stream = work.new_id("d") if state is None else state.id
    for event in rules.decide(command, state):
        work.emit(stream, event, first=state.row if state is not None else 0)
    return stream


def _with_pieces(
    work: Work, connection: Connection, command: rules.TextAdded, cut_text: _DocumentText, state: DocumentState | None
) -> rules.TextAdded:
    cut = cut_text.pieces if cut_text.cut_elsewhere or cut_text.kind == command.doc_type else None
    pieces = cut if cut is not None else tuple(chunking.chunks(cut_text.text, command.doc_type))
    known: list[int | None] = []
    if state is not None:
        known = [None] * state.chunks
        for chunk in documents.chunks(connection, state.row):
            if chunk.index < len(known):
                known[chunk.index] = chunk.fingerprint
    user = work.who.user
    prints = [
        documents.chunk_fingerprint(work.secret, user, piece.content, piece.heading_path, piece.own) for piece in pieces
    ]
    fresh = [work.new_id("c") for _ in pieces]
    return replace(
        command, pieces=pieces, fresh=fresh, prints=prints, known=known, called=_title(cut_text, command.doc_type)
    )


def _title(cut_text: _DocumentText, kind: str) -> str:
    """Return the title of a new document for which the caller gave no title."""
    title = (
        chunking.title(cut_text.text, kind) or os.path.basename(cut_text.path) or chunking.first_words(cut_text.text)
    )
    return title.encode()[: rules.TITLE_BYTES].decode("utf-8", "ignore")


def _refuse_distrusted(work: Work, connection: Connection, cut_text: _DocumentText) -> None:
    """Raise ``RejectedError`` if the text or the path is that of a distrusted document, which must not come back as a new one."""
    for refusal in control.refused(connection):
        if (refusal.user, refusal.kind) != (work.who.user, "document"):
            continue
        sql = "SELECT position FROM events WHERE stream = ? AND type IN ('DocumentAdded', 'DocumentReplaced')"
        for (position,) in connection.execute(sql, (refusal.source,)).fetchall():
            event = read_event(connection, position)
            data = event.data if event is not None else None
            same_path = isinstance(data, DocumentAdded) and cut_text.path and data.path == cut_text.path
            if same_path or getattr(data, "digest", None) == cut_text.digest:
                raise RejectedError(
                    f"the document {refusal.source} is distrusted; history.trust() must end the distrust before the "
                    "document is added again",
                    rule="trust",
                    subject=refusal.source,
                )


def _read(source: str | os.PathLike[str], path: str | None) -> tuple[str, str]:
    """Return the text, and the path that identifies the document ("" without a path)."""
    if path is not None:
        check_text("path", path, max_bytes=rules.PATH_BYTES)
    if isinstance(source, os.PathLike):
        text, name = read_document(source)
        if len(name.encode()) > rules.PATH_BYTES and path is None:
            raise RejectedError(f"the path has more than {rules.PATH_BYTES:,} bytes: give a shorter path with path=")
        label = f"the file {name!r:.200}"
    elif isinstance(source, str):
        text, name, label = source, "", "the text"
    else:
        raise RejectedError(
            f"a document is a text (str), a file (pathlib.Path) or a list of chunks, not a {type(source).__name__}; "
            "decode the bytes of a file first"
        )
    check_text(label, text, max_bytes=rules.TEXT_BYTES)
    if "\0" in text:
        raise RejectedError(f"{label} contains a NUL character, which is not allowed in a text")
    return text, path if path is not None else name


def _suffix(path: str) -> str:
    return os.path.splitext(path)[1].lower()
