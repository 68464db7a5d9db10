"""The commands that remove text for good, and those that keep it from being removed."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ledger.cli.frame import WRITES, Exclusive, command, console, listed, say
from ledger.domain.errors import NotFoundError, RejectedError
from ledger.types import EVERYTHING, DocumentPath, Event, Project, SessionName

if TYPE_CHECKING:
    from ledger.api import Ledger
    from ledger.types import WriteOptions

ERASURE = "Erase"
Reason = Annotated[
    str, typer.Option("--reason", "-r", help="Why, in your words; it is kept, so do not repeat the text.")
]
_CHOICE = "erase, cut (only what repeats it) or keep"


def add_to(app: typer.Typer) -> None:
    command(app, ERASURE, view="erasure", options=WRITES)(erase)
    command(app, ERASURE, view="erasures", writes=True)(finish_erasures)
    command(app, ERASURE, view="erasures")(erasures)
    command(app, ERASURE, view="report")(certificates)
    for function in (hold, lift_hold):
        command(app, ERASURE, view="held", options=WRITES)(function)
    command(app, ERASURE, view="holds")(holds)


def erase(
    ledger: Ledger,
    by: WriteOptions,
    subject: Annotated[
        str | None,
        typer.Argument(help="The id of a memory, an interaction, a document, a session, a project; or a position."),
    ] = None,
    session: Annotated[str | None, typer.Option("--session", "--session-id", help="A session by its name.")] = None,
    project: Annotated[str | None, typer.Option("--project", "-p", help="A project by its name.")] = None,
    document: Annotated[str | None, typer.Option("--document", help="A document by its path or id.")] = None,
    whole_user: Annotated[bool, typer.Option("--whole-user", help="Everything of --user, and the name.")] = False,
    derived: Annotated[str | None, typer.Option("--derived", help=f"Memories that came from it: {_CHOICE}.")] = None,
    sources: Annotated[str | None, typer.Option("--sources", help=f"What it came from: {_CHOICE}.")] = None,
    quotes: Annotated[str | None, typer.Option("--quotes", help=f"Others that say the same: {_CHOICE}.")] = None,
    keep: Annotated[list[str], typer.Option("--keep", help="An id or position that stays; may be given again.")] = [],  # noqa: B006
    field: Annotated[list[str], typer.Option("--field", help="Of one event: a field, like data.reason.")] = [],  # noqa: B006
    span: Annotated[
        list[str], typer.Option("--span", metavar="FIELD:START:END", help="Of one event: characters of a field.")
    ] = [],  # noqa: B006
    reason: Reason = "",
    exclusive: Exclusive = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list what it would concern.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask whether it is meant.")] = False,
) -> Any:
    """Remove texts for good; the chain still verifies, and nothing brings them back. Retract is the everyday way."""
    called = ((SessionName, session), (Project, project), (DocumentPath, document))
    named = [kind(name) for kind, name in called if name is not None]
    if not whole_user and not named and subject is None:
        raise typer.BadParameter(
            "name what to erase: an id, a position, --session, --project, --document or --whole-user"
        )
    if whole_user + len(named) + (subject is not None) > 1:
        raise typer.BadParameter(
            "an erasure names one thing: an id, a position, --session, --project, --document or --whole-user"
        )
    spans = [_span(each) for each in span]
    position = _number(subject) if subject is not None else ""
    what = Event(position, field, spans) if isinstance(position, int) else next(iter(named), subject or EVERYTHING)
    if (field or span) and not isinstance(what, Event):
        raise RejectedError("--field and --span are of one event, which is named by its position")
    asker: dict[str, Any] = {"derived": derived, "sources": sources, "quotes": quotes, **by}
    asker["keep"] = [_number(each) for each in keep]
    if dry_run:
        return ledger.erase(what, dry_run=True, **asker)
    if not yes and sys.stdin.isatty():
        _ask(ledger.erase(what, dry_run=True, **asker))
    return ledger.erase(what, reason=reason, exclusive=exclusive, **asker)


def _ask(planned: Any) -> None:
    """Shows what would go, and asks; anything but a yes erases nothing."""
    from ledger.cli import showing

    console().print(showing.erasure(planned))
    if not typer.confirm("Erase this for good?", err=True):
        say("nothing was erased")
        raise typer.Exit(1)


def _number(given: str) -> str | int:
    return int(given) if given.isascii() and given.isdigit() and len(given) < 19 else given


def _span(given: str) -> tuple[str, int, int]:
    field, _, rest = given.partition(":")
    first, _, last = rest.partition(":")
    if not (first.isascii() and first.isdigit() and last.isascii() and last.isdigit()):
        raise RejectedError(f"a span is FIELD:START:END in characters, like data.prompt:3:9, and {given!r:.60} is not")
    return field, int(first), int(last)


def finish_erasures(ledger: Ledger) -> Any:
    """Try again to purge and search the files after erasures that are pending."""
    return list(ledger.erasures.finish())


def erasures(ledger: Ledger) -> Any:
    """Every erasure with its state; with --json also its certificate."""
    return listed(ledger.erasures.list)


def certificates(
    ledger: Ledger,
    path: Annotated[str, typer.Argument(help="A file that is not there yet; for recover --certificate.")],
) -> Any:
    """Write the certificates of all erasures, one a line: keep them apart from the backups."""
    from ledger.maintenance.transfer import new_file

    found = ledger.erasures.certificates()
    with new_file(path) as file:
        file.writelines(each + "\n" for each in found)
    return {"path": path, "certificates": len(found)}


def hold(
    ledger: Ledger,
    by: WriteOptions,
    subject: Annotated[
        str | None, typer.Argument(help="An id, or a session's or project's name; none: the user.")
    ] = None,
    reason: Annotated[str, typer.Option("--reason", "-r", help="Why, in your words; it is kept.")] = "",
) -> Any:
    """Keep something, or all of a user, from being erased (a legal hold)."""
    return ledger.holds.add(EVERYTHING if subject is None else _named(ledger, subject), reason=reason, **by)


def _named(ledger: Ledger, given: str) -> str:
    """The id of the session or project that is called so, or else what was given."""
    if (session := ledger.session(given).id) is not None:
        return session
    with suppress(NotFoundError):
        return ledger.projects.get(given).id
    return given


def lift_hold(
    ledger: Ledger,
    by: WriteOptions,
    hold: Annotated[str, typer.Argument(help="The hold's id, as holds shows it.")],
    reason: Annotated[str, typer.Option("--reason", "-r", help="Why, in your words; it is kept.")] = "",
) -> Any:
    """End a legal hold."""
    return ledger.holds.remove(hold, reason=reason, **by)


def holds(ledger: Ledger) -> Any:
    """The legal holds."""
    return listed(ledger.holds.list)
