"""The commands for which a method's signature is not enough: they take several files, ask a person, or draw a picture.

Each function takes the call and the parameters that the command has besides those of the method. The help of these parameters
is in the function's docstring; the help of the command is in the method's docstring.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

from msgspec import Struct
from msgspec.structs import asdict

from ledger.cli import asking
from ledger.cli.agents import install, uninstall
from ledger.cli.calling import (
    STDIN,
    Progress,
    ShellCall,
    file_text,
    hint_at_others,
    invoke,
    opened,
    stdin_text,
    stopped_by_signals,
)
from ledger.cli.doors import DOORS
from ledger.cli.keyed import get_value, put_value
from ledger.cli.output import Stopped, Usage, say, show_once
from ledger.cli.rows import query
from ledger.cli.sharing import shared
from ledger.cli.shell_words import next_command
from ledger.cli.views import Raw
from ledger.core.shell import quoted
from ledger.domain.errors import ConflictError, LedgerError, NotFoundError, RejectedError
from ledger.domain.text import counted, one_line
from ledger.types import EVERYTHING, Channel, DocumentPath, Event, Project, SessionName

if TYPE_CHECKING:
    from ledger import answers
    from ledger.api import PastLedger
    from ledger.documents.answers import Document, IngestReport

ExportFormat = Literal["jsonl", "markdown"]
HAND = "by hand"  # the area of commands without a method of the library


class CommandChange(NamedTuple):
    """The difference of a command from its method.

    ``run`` makes the answer, and its parameters are added to those of the method. The parameters ``drop`` are left out.
    """

    run: Callable[..., object]
    drop: tuple[str, ...] = ()


# --- erase and hold --------------------------------------------------------------------------------------------------


class EraseOptions(Struct, frozen=True, kw_only=True):
    """The options of the command ``erase``."""

    project: str | None = None
    session: str | None = None
    document: str | None = None
    everything: bool = False
    fields: Sequence[str] = ()
    spans: Sequence[str] = ()
    phrases: Sequence[str] = ()
    yes: bool = False


def erase(call: ShellCall, subject: str | int | None = None, *, options: EraseOptions) -> object:
    """Erase after a question to the person at the terminal.

    Args:
        subject: An id, also of a message, or the position of one event.
        project: A project by name, alias or id.
        session: A session by name, alias or id.
        document: A document by its path or id.
        everything: Everything of --user, and the name.
        fields: Of one event: only this field, like data.reason; may be given again.
        spans: Of one event: only these characters, FIELD:START:END; may be given again.
        phrases: Of one event: only these words, wherever the event has them; may be given again.
        yes: Do not ask for a confirmation; without a terminal, an erasure needs this.
    """
    target = _subject(subject, options.project, options.session, options.document, everything=options.everything)
    if options.fields or options.spans or options.phrases:
        if not isinstance(target, int):
            raise RejectedError("--fields, --spans and --phrases need a position as the subject")
        spans = tuple(_span(text) for text in options.spans)
        target = Event(target, tuple(options.fields), spans, tuple(options.phrases))
    elif isinstance(target, int):
        target = Event(target)
    arguments = {**call.arguments, "subject": target}
    with opened(call) as ledger:
        if not arguments["dry_run"] and not options.yes:
            trial: dict[str, Any] = {
                name: value for name, value in arguments.items() if name not in ("reason", "exclusive")
            }
            trial["dry_run"] = True
            plan = ledger.erase(**trial)
            if not asking.is_at_a_terminal():
                raise RejectedError("without a terminal an erasure needs --yes; --dry-run only lists the events")
            show_once(plan)
            undecided = [
                name
                for name in ("derived", "sources", "quotes")
                if any(not erased.choice for erased in getattr(plan, name))
            ]
            if undecided:
                choices = ", ".join(f"--{name} erase, cut or keep" for name in undecided)
                raise RejectedError(f"nothing was erased: other events hold these texts too, so choose {choices}")
            if not asking.is_confirmed("Erase this for good?"):
                raise Stopped("nothing was erased")
        with stopped_by_signals() as stop:
            return ledger.erase(cancel=stop, **arguments)


def _subject(
    subject: str | int | None, project: str | None, session: str | None, document: str | None, *, everything: bool
) -> Any:
    """Return the subject that the options name.

    Raises:
        Usage: The options name no subject, or several.
    """
    names = ((SessionName, session), (Project, project), (DocumentPath, document))
    subjects: list[Any] = [kind(name) for kind, name in names if name is not None]
    subjects += [subject] if subject is not None else []
    subjects += [EVERYTHING] if everything else []
    if len(subjects) != 1:
        raise Usage("name exactly one subject: an id, a position, --session, --project, --document or --everything")
    return subjects[0]


def _span(text: str) -> tuple[str, int, int]:
    field, _, bounds = text.partition(":")
    start, _, end = bounds.partition(":")
    if not (start.isascii() and start.isdigit() and end.isascii() and end.isdigit()):
        raise RejectedError(f"a span is FIELD:START:END in characters, like data.prompt:3:9, and {text!r:.60} is not")
    return field, int(start), int(end)


def hold(
    call: ShellCall,
    subject: str | None = None,
    *,
    project: str | None = None,
    session: str | None = None,
    document: str | None = None,
    everything: bool = False,
) -> object:
    """Put a hold on the subject that the options name.

    Args:
        subject: An id.
        project: A project by name, alias or id.
        session: A session by name, alias or id.
        document: A document by its path or id.
        everything: Everything of --user.
    """
    target = _subject(subject, project, session, document, everything=everything)
    with opened(call) as ledger:
        return ledger.holds.add(target, **call.arguments)


# --- files -----------------------------------------------------------------------------------------------------------


def add_documents(
    call: ShellCall, paths: Sequence[str], *, recursive: bool = False, progress: Progress | None = None
) -> IngestReport:
    """Add several files, with the errors of single files in the report.

    Args:
        paths: Files of UTF-8 text, Markdown or .txt; "-" for standard input.
        recursive: Of a directory: the .md, .markdown and .txt files in it.
    """
    from ledger.documents.answers import IngestReport
    from ledger.domain.ids import uuid7

    arguments = call.arguments
    files, errors = _files(paths, recursive=recursive)
    if len(files) + len(errors) > 1 and (arguments["title"] or arguments["path"] or "idempotency_key" in arguments):
        raise Usage("--title, --path and --idempotency-key are for one file")
    run = arguments.setdefault("correlation_id", uuid7(time.time_ns(), os.urandom(8)))
    added: list[Document] = []
    with opened(call) as ledger:
        arguments["project"] = call.parameters["project"]  # perhaps that of the settings or of the folder
        for number, (file, within) in enumerate(files, 1):
            try:
                added.append(ledger.documents.add(**_document(file, within, arguments)))
            except LedgerError as error:
                errors.append((file, str(error)))
            if progress is not None:
                progress(number, len(files))
    for file, why in errors:
        say(why if repr(file)[1:-1] in why else f"{file}: {why}")
    is_new = any(not (document.absorbed or document.replayed) for document in added)
    return IngestReport(documents=tuple(added), errors=tuple(errors), correlation_id=run if is_new else None)


def _document(file: str, within: str | None, arguments: dict[str, Any]) -> dict[str, Any]:
    from ledger.documents.files import read_document
    from ledger.documents.rules import TEXT_BYTES

    if file == STDIN:
        return {**arguments, "source": stdin_text(TEXT_BYTES + 1)}
    if within is None:
        return {**arguments, "source": Path(file).expanduser()}
    text, name = read_document(file, within=within)
    return {**arguments, "source": text, "path": name}


def _files(paths: Sequence[str], *, recursive: bool) -> tuple[list[tuple[str, str | None]], list[tuple[str, str]]]:
    """Return each file with the named directory that contains it (None if the file itself was named), and the errors."""
    from ledger.documents.files import SUFFIXES, files_below

    files, errors = dict[str, str | None](), list[tuple[str, str]]()
    for path in dict.fromkeys(map(os.path.expanduser, paths)):
        if not path:  # an unset variable of a shell must not mean the current directory
            errors.append((path, "a path is blank"))
        elif not os.path.isdir(path):
            files.setdefault(path, None)
        elif not recursive:
            suffixes = ", ".join(SUFFIXES)
            errors.append((path, f"{path!r} is a directory: with --recursive its {suffixes} files are added"))
        else:
            below = list(files_below(path))
            files |= {file: path for file in below if file not in files}
            if not below:
                errors.append((path, f"{path!r} has no {', '.join(SUFFIXES)} file in it"))
    if not files and not errors:
        raise RejectedError("name at least one file")
    return list(files.items()), errors


class ImportOptions(Struct, frozen=True, kw_only=True):
    """The options of the command ``import``."""

    kind: str | None = None
    project: str | None = None
    since: str | None = None
    limit: int | None = None
    zone: str | None = None
    channel: Channel | None = None
    dry_run: bool = False
    timeout: float | None = None


def import_from(call: ShellCall, path: Path, *, options: ImportOptions, progress: Progress | None = None) -> object:
    """Import conversations and memories from the files of another program; importing them again adds nothing.

    Args:
        path: A file, a folder or a ZIP archive, such as ~/.claude/projects; "-" for standard input.
        kind: The kind of the source, such as claude-code; told by the content if left out.
        project: The project of everything; the projects that the source names if left out.
        since: Only records from then on: a date, a time with its offset, or a duration back from now.
        limit: The most new records; the same command then goes on.
        zone: The time zone of times without an offset, such as Europe/Brussels.
        channel: The channel of everything, for instance file for what others wrote; by what the source tells if left out.
        dry_run: Record nothing, and count what would be new.
        timeout: Seconds after which the import stops between two commits; the same command then goes on.
    """
    from ledger.importers import import_from as importing

    with _file_of(path) as file, opened(call, readonly=False) as ledger, stopped_by_signals() as stop:
        return importing(ledger, file, cancel=stop, progress=progress, **asdict(options))


@contextmanager
def _file_of(path: Path) -> Iterator[Path]:
    """Yield a path, or for "-" a temporary file with what standard input holds."""
    if str(path) != STDIN:
        yield path.expanduser()
        return
    with tempfile.TemporaryDirectory() as place:  # Windows opens no file a second time that deletes itself
        copy = Path(place, "stdin.jsonl")
        with copy.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        yield copy


def import_file(call: ShellCall, *, progress: Progress | None = None) -> object:
    """Import a file; the path "-" means standard input."""
    with opened(call) as ledger, _file_of(call.parameters["path"]) as file:
        return invoke(call, ledger, {**call.arguments, "path": file}, progress)


def export_log(call: ShellCall, *, progress: Progress | None = None) -> object:
    """Export the log to a file; the path "-" means standard output."""
    with opened(call) as ledger:
        if str(call.parameters["path"]) != STDIN:
            return invoke(call, ledger, call.arguments, progress)
        with tempfile.TemporaryDirectory() as place:
            path = Path(place) / "log.jsonl"
            report = ledger.maintenance.export_log(path, progress=progress)
            with path.open("rb") as file:
                while part := file.read(1024 * 1024):
                    sys.stdout.buffer.write(part)
        say(report.warning, quiet=bool(call.options["quiet"]))
        return None


def export(
    call: ShellCall, path: Path | None = None, *, format: ExportFormat | None = None, project: str | None = None
) -> object:
    """Export the user's memories, with those that are superseded or refuted, and without the secret of the ledger.

    Args:
        path: A file that is not there yet; standard output if left out, or for "-".
        format: The form: jsonl for a JSON object on each line, which import reads again, or markdown for a note.
        project: Only memories of this project.
    """
    from ledger.importers import export_to
    from ledger.importers.leaving import exported

    if format is None:
        raise RejectedError("name --format jsonl or --format markdown; the whole log is written by export-log")
    with opened(call) as ledger:
        if path is not None and str(path) != STDIN:
            return export_to(ledger, path.expanduser(), format=format, project=project)
        sys.stdout.writelines(exported(ledger, format, project))
        return None


def certificates(call: ShellCall, path: Path) -> object:
    """Write the certificates of erasures to a file.

    Args:
        path: A file that is not there yet, for recover --certificates; "-" for standard output.
    """
    from ledger.care.transfer import new_file

    with opened(call) as ledger:
        issued = ledger.erasures.certificates()
    lines = [certificate + "\n" for certificate in issued]
    if str(path) == STDIN:
        sys.stdout.writelines(lines)
        return None
    with new_file(str(path.expanduser())) as file:
        file.writelines(lines)
    return {"path": str(path), "certificates": len(issued)}


def recover(call: ShellCall, *, certificates: Sequence[Path] = (), progress: Progress | None = None) -> object:
    """Recover the ledger from a backup, with the certificates in some files.

    Args:
        certificates: A file of certificates of erasures to do again; may be given again.
    """
    from ledger.api import Ledger

    lines = [line for path in certificates for line in file_text(path).splitlines() if line.strip()]
    return Ledger.recover(path=call.settings.path, certificates=lines, progress=progress, **call.arguments)


def import_log(call: ShellCall, *, progress: Progress | None = None) -> object:
    """Import a log, and return the numbers of the new ledger."""
    from ledger.api import Ledger

    Ledger.import_log(path=call.settings.path, progress=progress, **call.arguments)
    with opened(call, readonly=True) as ledger:
        hint_at_others(call, ledger, stats := ledger.maintenance.stats())
        return stats


# --- proofs ----------------------------------------------------------------------------------------------------------


def verify(call: ShellCall, *, progress: Progress | None = None) -> object:
    """Verify the file without opening it as a ledger, so that even a damaged file can be verified."""
    from ledger.proof.proving import verify_file

    return verify_file(call.settings.path, progress=progress, **call.arguments)


def checkpoint(call: ShellCall, *, seal: bool = True, progress: Progress | None = None) -> object:
    """Make a checkpoint; without ``seal`` the ledger is opened only for reading.

    Args:
        seal: Also record the checkpoint in the log; without this, the ledger is only read.
    """
    with opened(call, readonly=not seal) as ledger:
        return invoke(call, ledger, call.arguments, progress)


def check(call: ShellCall) -> object:
    """Check the proof in a file; no ledger is needed."""
    from ledger.proof.api import Proofs

    return Proofs.check(file_text(call.parameters["proof"]), call.arguments["checkpoint"])


# --- windows and pictures --------------------------------------------------------------------------------------------

Provider = Literal["openai", "anthropic"]


def show_window(call: ShellCall, *, provider: Provider | None = None) -> object:
    """Show a window, or print its messages for a provider.

    Args:
        provider: Print the messages as JSON in the form that this provider takes.
    """
    with opened(call) as ledger:
        window: Any = invoke(call, ledger, call.arguments)
    return window if provider is None else window.render(provider)


def show_pack(call: ShellCall, *, prompt: bool = False) -> object:
    """Show a pack, or print its text for a prompt.

    Args:
        prompt: Print only the text for the prompt, which ``as_text()`` returns.
    """
    with opened(call) as ledger:
        pack: Any = invoke(call, ledger, call.arguments)
        hint_at_others(call, ledger, pack)
    if not prompt:
        return pack.with_text() if call.options["json"] else pack
    return pack.as_text() if call.options["json"] else Raw(pack.as_text())


def show_unread(call: ShellCall) -> object:
    """Print the request for a model, and its token on standard error; with ``--quiet`` only the token.

    The same turns have the same token until somebody reads them, so it may be asked for first.
    """
    with opened(call) as ledger:
        unread = cast("answers.Unread", invoke(call, ledger, call.arguments))
    if call.options["json"]:
        return unread
    if unread.held_until is not None:
        raise ConflictError(
            f"another reader has {counted(unread.more, 'unread turn')} until {unread.held_until}; try again then"
        )
    if not unread.token:
        raise NotFoundError("there is nothing to read: a model has read every turn of the last 90 days, or of --since")
    if call.options["quiet"]:
        return Raw(unread.token)
    say(f"{counted(unread.turns, 'turn')} to read, {unread.more} more; hand in the answer with:")
    say(next_command(f"learning learn {unread.token} -"))
    return Raw(f"{unread.instructions}\n\n{unread.content}")


def show_graph(call: ShellCall, *, mermaid: bool = False) -> object:
    """Show a graph as a tree, or print it as a flowchart.

    Args:
        mermaid: Print a flowchart for Mermaid, instead of a tree for people.
    """
    with opened(call) as ledger:
        graph: Any = invoke(call, ledger, call.arguments)
    if not mermaid:
        return graph
    if call.method.area == "graph":
        from ledger.cli.views import graphs

        return Raw(graphs.mermaid(graph))
    return Raw(graph.as_mermaid())


# --- work ------------------------------------------------------------------------------------------------------------


def work(call: ShellCall, *, progress: Progress | None = None) -> object:
    """Do the pending jobs; with --follow print a line for each pass that did something."""
    from ledger.answers import JobReport

    total: dict[str, int] = {}
    follow, words = call.parameters["follow"], dict[str, str]()
    with opened(call) as ledger, stopped_by_signals() as stop:
        for report in ledger.jobs.work(cancel=stop, progress=None if follow else progress, **call.arguments):
            done = _numbers(report)
            words = {name: getattr(report, name) for name in ("stopped", "waiting_until", "vectors_failure")}
            total |= {name: total.get(name, 0) + number for name, number in done.items()}
            if follow and done:
                _print_pass(call, done)
                if report.vectors_failure:
                    say(report.vectors_failure, quiet=call.options["quiet"])
    if not follow:
        return JobReport(**words, **total)  # type: ignore[arg-type]
    say(f"stopped; {_line(total) or 'there was nothing to do'}", quiet=call.options["quiet"])
    return None


def update_vectors(call: ShellCall, *, yes: bool = False, progress: Progress | None = None) -> object:
    """Make vectors; if the file has vectors of other models alone, show what the change costs, and ask first.

    Args:
        yes: Do not ask before a change of the model; without a terminal, a change needs this.
    """
    from ledger.vectors.embedders import as_embedder, prefixes_of

    name = call.parameters["model"] or call.settings.embedder
    model = (
        as_embedder(name, prefixes_of(call.settings)) if name else None
    )  # one, which is loaded once for all calls below
    arguments = call.arguments | {"model": model}
    with opened(call) as ledger:
        others = [each.model for each in ledger.vectors.list().all()]
        is_change = model is not None and bool(others) and model.name not in others and not arguments["dry_run"]
        if is_change and not yes:
            if not asking.is_at_a_terminal():
                raise RejectedError(
                    f"the vectors in this file are of {', '.join(others)}, and {name} has none: without a terminal this change"
                    " needs --yes; --dry-run only shows what it costs"
                )
            show_once(ledger.vectors.update(model=model, dry_run=True))
            if not asking.is_confirmed(f"Make vectors of {name}?"):
                raise Stopped("nothing was changed")
        report = invoke(call, ledger, arguments, progress)
    for other in others if is_change else ():
        say(
            f"the vectors of {other} are not used with {name}; `memory-ledger vectors remove {quoted([other])}` deletes them",
            quiet=call.options["quiet"],
        )
    return report


def bisect(call: ShellCall, *, recall: str, expect: str, limit: int = 20) -> object:
    """Find the command after which a recall finds an item, or no longer finds it.

    Args:
        recall: The question.
        expect: The id of the item, or the beginning of the id. If the recall finds the item at the earlier moment, the command is
            searched after which it no longer does.
        limit: The recall finds the item if the item is among this many items.
    """
    if len(expect) < 3:
        raise RejectedError(f"--expect is an id, or at least 3 characters of its beginning, and {expect!r} is less")

    def is_found(past: PastLedger) -> bool:
        return any(item.id.startswith(expect) for item in past.recall(recall, limit=limit).items)

    with opened(call) as ledger:
        return ledger.history.bisect(is_found, **call.arguments)


def follow(call: ShellCall) -> object:
    """Print a line for each event of the log as it is recorded, or its JSON with --json."""
    from ledger.cli.terminal_text import as_json

    with opened(call) as ledger, stopped_by_signals() as stop:
        for entry in ledger.history.follow(cancel=stop, **call.arguments):
            if call.options["json"]:
                print(as_json(entry.to_dict(), indent=None), flush=True)
            else:
                author = f" by {one_line(entry.actor)}" if entry.actor else ""
                print(
                    f"{entry.position} {entry.recorded_at} {entry.type} {entry.subject} {entry.command}{author}",
                    flush=True,
                )
    return None


def wait(call: ShellCall) -> object:
    """Wait for a position of the log; fail if the time is over before."""
    with opened(call) as ledger, stopped_by_signals() as stop:
        if not ledger.history.wait(cancel=stop, **call.arguments):
            raise Stopped(f"the log has no position {call.parameters['position']} yet; its last is {ledger.position}")
    return None


def _numbers(report: answers.JobReport) -> dict[str, int]:
    return {name: number for name, number in report.to_dict().items() if isinstance(number, int) and number}


def _line(done: dict[str, int]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {number:,}" for name, number in done.items())


def _print_pass(call: ShellCall, done: dict[str, int]) -> None:
    from ledger.cli.terminal_text import as_json

    if call.options["json"]:
        print(as_json(done, indent=None), flush=True)
    else:
        say(_line(done), quiet=call.options["quiet"])


# --- commands without a method of the library ------------------------------------------------------------------------


def off(call: ShellCall, *, project: str | None = None) -> object:
    """Switch the memory off for a project: agents record nothing there and get nothing. What is on record can be searched.

    Args:
        project: A project by name, alias or id; the project of the working directory if left out.
    """
    return _switched(call, project, off=True)


def on(call: ShellCall, *, project: str | None = None) -> object:
    """Switch the memory on again for a project that `off` switched off.

    Args:
        project: A project by name, alias or id; the project of the working directory if left out.
    """
    return _switched(call, project, off=False)


def _switched(call: ShellCall, project: str | None, *, off: bool) -> object:
    """Change the user's policy, and return the project."""
    with opened(call, readonly=False) as ledger:
        name = project
        if name is None:
            here = ledger.projects.enter()
            if here.off == "file":
                path = f"{here.root}/.memory-ledger.toml"
                raise RejectedError(
                    f"{path} says off = true, which counts before any command: change the file", rule="off"
                )
            name = here.project
        if name is None:
            raise Usage("this folder is no project: name a project by --project")
        found = ledger.projects.get(name)
        kept = [other for other in ledger.policy.get().off if ledger.projects.get(other).id != found.id]
        ledger.policy.set(off=[*kept, found.id] if off else kept)
        say(f"the memory is {'off' if off else 'on'} for {found.name!r}", quiet=bool(call.options["quiet"]))
        return ledger.projects.get(found.id)


def config(call: ShellCall) -> object:
    """List each setting with its origin: argument, LEDGER_* variable, ledger.toml or default. A secret shows only as set."""
    return call.settings.shown


def demo(call: ShellCall, *, all: bool = False, keep: bool = False, progress: Progress | None = None) -> object:
    """Play ten weeks of a conversation with a memory: a prompt without and with memory, a changed fact, an undo.

    Args:
        all: Show also the beliefs, the review queue, the audit trail, the past, a what-if and the verification.
        keep: Keep the temporary ledger, and print its path; a ledger at --db stays anyway.
    """
    from ledger.demo.play import rehearse

    path = call.options["db"]
    place = None if path is None else str(path.expanduser())
    numbers, shown = rehearse(place, keep=keep, whole=all, progress=progress)
    show_once(numbers if call.options["json"] else shown, json=call.options["json"])
    if "path" in numbers:
        say(f"the ledger is kept at {numbers['path']}", quiet=call.options["quiet"])
    if not numbers["equal"]:
        raise Stopped("the rebuilt ledger is not the same")
    return None


def docs(call: ShellCall, page: str | None = None, *, words: Sequence[str] = (), path: bool = False) -> object:
    """List the pages of the documentation, show a page, or search the pages.

    Args:
        page: The name of a page, as in the list.
        words: Show the lines that contain this text; may be given again.
        path: Print the path of the page's file.
    """
    from ledger.cli import manual

    if words:
        return manual.search(words, page)
    if page is None:
        return manual.pages()
    file = manual.file(page)
    if path:
        return str(file)
    text = file.read_text(encoding="utf-8")
    if call.options["json"] or not sys.stdout.isatty():
        return text if call.options["json"] else Raw(text)
    manual.show(text)
    return None


CHANGED = {
    ("", "erase"): CommandChange(erase, drop=("subject",)),
    ("holds", "add"): CommandChange(hold, drop=("subject",)),
    ("documents", "add"): CommandChange(add_documents, drop=("source",)),
    ("values", "put"): CommandChange(put_value, drop=("value",)),
    ("values", "get"): CommandChange(get_value),
    ("interactions", "import_file"): CommandChange(import_file),
    ("maintenance", "export_log"): CommandChange(export_log),
    ("erasures", "certificates"): CommandChange(certificates),
    ("", "recover"): CommandChange(recover, drop=("certificates",)),
    ("", "import_log"): CommandChange(import_log),
    ("proof", "verify"): CommandChange(verify),
    ("proof", "checkpoint"): CommandChange(checkpoint),
    ("proof", "check"): CommandChange(check),
    ("", "recall"): CommandChange(show_pack),
    ("", "context"): CommandChange(show_pack),
    ("", "profile"): CommandChange(show_pack),
    ("projects", "context"): CommandChange(show_pack),
    ("learning", "unread"): CommandChange(show_unread),
    ("session", "window"): CommandChange(show_window),
    ("session", "reopen"): CommandChange(show_window),
    ("graph", "neighbors"): CommandChange(show_graph),
    ("summaries", "graph"): CommandChange(show_graph),
    ("jobs", "work"): CommandChange(work),
    ("vectors", "update"): CommandChange(update_vectors),
    ("history", "bisect"): CommandChange(bisect, drop=("test",)),
    ("history", "follow"): CommandChange(follow, drop=("cancel",)),
    ("history", "wait"): CommandChange(wait, drop=("cancel",)),
    ("", "query"): CommandChange(query, drop=("parameters",)),
}
OTHERS: dict[str, Callable[..., object]] = {
    "config": config,
    "demo": demo,
    "export": export,
    "import": import_from,
    "docs": docs,
    "off": off,
    "on": on,
    "shared": shared,
    "install": install,
    "uninstall": uninstall,
    **DOORS,
}
