"""The commands on documents: take files in, look at them and their chunks, remove and restore."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ledger.cli.frame import PAST, WRITES, choices, command, listed, say, stdin_text
from ledger.domain.errors import LedgerError, RejectedError
from ledger.domain.ids import uuid7

if TYPE_CHECKING:
    from ledger.api import Ledger
    from ledger.documents.answers import Document
    from ledger.types import WriteOptions

    Progress = Callable[[int, int], None]

DOCUMENTS = "Documents"

Id = Annotated[str, typer.Argument(help="A document's id (d_…), or an unambiguous beginning of it.")]
ChunkId = Annotated[str, typer.Argument(help="A chunk's id (c_…), or an unambiguous beginning of it.")]
Reason = Annotated[str, typer.Option("--reason", "-r", help="Why, in your words; it is kept.")]


def add_to(app: typer.Typer) -> None:
    command(app, DOCUMENTS, view="added", options=WRITES, creates=True)(ingest)
    for look, view in ((documents, "documents"), (document, "document"), (chunk, "chunk")):
        command(app, DOCUMENTS, view=view, past=PAST)(look)
    for change in (remove_document, restore_document):
        command(app, DOCUMENTS, view="changed_document", options=WRITES)(change)


def ingest(
    ledger: Ledger,
    by: WriteOptions,
    progress: Progress | None,
    paths: Annotated[
        list[str],
        typer.Argument(metavar="PATH...", help='Files of UTF-8 text; Markdown, or .txt; "-" for standard input.'),
    ],
    recursive: Annotated[
        bool, typer.Option("--recursive", "-R", help="Of a directory: the .md, .markdown and .txt files in it.")
    ] = False,
    title: Annotated[str, typer.Option("--title", help="What it is called; of one file.")] = "",
    tag: Annotated[list[str], typer.Option("--tag", help="A tag; may be given again, at most 10.")] = [],  # noqa: B006
    project: Annotated[
        str | None, typer.Option("--project", "-p", help="A name or alias; a new one is registered.")
    ] = None,
    path: Annotated[
        str | None, typer.Option("--path", help="What one file is to be known by, if not its path.")
    ] = None,
    doc_type: Annotated[str | None, typer.Option("--type", help="markdown, or text for what has no headings.")] = None,
) -> Any:
    """Take files in as documents, cut into chunks; one that is known is replaced where the text differs."""
    from ledger.documents.answers import IngestReport

    found, errors = _files(paths, recursive=recursive)
    if len(found) + len(errors) > 1 and (title or path or by.get("idempotency_key")):
        raise typer.BadParameter("--title, --path and --key are for one file")
    options: dict[str, Any] = {"title": title, "tags": tag or None, "project": project, "path": path, "type": doc_type}
    run = by.get("correlation_id") or uuid7(time.time_ns(), os.urandom(8))
    taken = list[Document]() if TYPE_CHECKING else []
    for number, (file, within) in enumerate(found, 1):
        try:
            taken.append(_add_one(ledger, file, within, options, {**by, "correlation_id": run}))
        except LedgerError as error:
            errors.append((file, str(error)))
        if progress is not None:
            progress(number, len(found))
    for file, why in errors:
        say(why if repr(file)[1:-1] in why else f"{file}: {why}")
    is_new = any(not (each.absorbed or each.replayed) for each in taken)
    return IngestReport(documents=tuple(taken), errors=tuple(errors), correlation_id=run if is_new else None)


def _add_one(ledger: Ledger, file: str, within: str | None, options: dict[str, Any], by: Any) -> Document:
    from pathlib import Path

    from ledger.documents.files import read_document
    from ledger.domain.document import TEXT_BYTES

    if file == "-":
        return ledger.documents.add(stdin_text(TEXT_BYTES + 1).removeprefix("\ufeff"), **options, **by)
    if within is None:
        return ledger.documents.add(Path(file), **options, **by)
    text, name = read_document(file, within=within)
    return ledger.documents.add(text, **{**options, "path": name}, **by)


def _files(paths: Sequence[str], *, recursive: bool) -> tuple[list[tuple[str, str | None]], list[tuple[str, str]]]:
    """(file, directory that it was found in) of everything meant, each once, and what cannot be meant."""
    from ledger.documents.files import SUFFIXES, files_below

    found, errors = dict[str, str | None](), list[tuple[str, str]]()
    for path in dict.fromkeys(paths):
        if not path:  # what a shell makes of a variable that is not set, and not the directory that we are in
            errors.append((path, "a path is blank"))
        elif not os.path.isdir(path):
            found.setdefault(path, None)
        elif not recursive:
            errors.append(
                (path, f"{path!r} is a directory: with --recursive its {', '.join(SUFFIXES)} files are taken in")
            )
        else:
            below = list(files_below(path))
            found |= {each: path for each in below if each not in found}
            if not below:
                errors.append((path, f"{path!r} has no {', '.join(SUFFIXES)} file in it"))
    if not found and not errors:
        raise RejectedError("name at least one file")
    return list(found.items()), errors


def documents(
    ledger: Ledger,
    project: Annotated[str | None, typer.Option("--project", "-p", help="A project's name, alias or id.")] = None,
    tag: Annotated[str | None, typer.Option("--tag", help="With this tag.")] = None,
    status: Annotated[str, typer.Option("--status", help="active, removed, erased or all.")] = "active",
    limit: Annotated[int, typer.Option("--limit", "-n", help="At most so many.")] = 50,
) -> Any:
    """The documents, newest first."""
    tags = (tag,) if tag is not None else ()
    return listed(ledger.documents.list, limit, project=project, tags=tags, statuses=choices([status]))


def document(
    ledger: Ledger,
    id: Id,
    text: Annotated[bool, typer.Option("--text", "-t", help="With what its chunks say.")] = False,
) -> Any:
    """One document with its chunks."""
    return ledger.documents.get(id, text=text)


def chunk(ledger: Ledger, id: ChunkId) -> Any:
    """One chunk with its text, also one that its document no longer has."""
    return ledger.documents.get_chunk(id)


def remove_document(ledger: Ledger, by: WriteOptions, id: Id, reason: Reason = "") -> Any:
    """Take a document out of use; what was remembered from it stays."""
    return ledger.documents.remove(id, reason=reason, **by)


def restore_document(ledger: Ledger, by: WriteOptions, id: Id, reason: Reason = "") -> Any:
    """Bring a removed document back."""
    return ledger.documents.restore(id, reason=reason, **by)
