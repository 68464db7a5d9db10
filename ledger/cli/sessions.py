"""The commands on sessions, ``session …``: what was said, kept within a window; spelled like the methods of a session."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ledger.cli.frame import PAST, WRITES, command, listed, stdin_text
from ledger.cli.writes import Since, Using
from ledger.domain.errors import NotFoundError, RejectedError
from ledger.engine.paging import Behind

if TYPE_CHECKING:
    from ledger.api import Ledger
    from ledger.types import WriteOptions

SESSIONS, LOOK, WINDOW, HISTORY = "Sessions", "Look", "Keep it within a window", "Say more, or less"
FILE_BYTES = 256 * 1024 * 1024
UNKEYED = tuple(each for each in WRITES if each not in ("key", "occurred_at"))  # a compaction goes on from where it is
UNDATED = tuple(each for each in WRITES if each != "occurred_at")  # a message has a time of its own

Name = Annotated[str, typer.Argument(help="A session's name, alias or id.")]
SummaryId = Annotated[str, typer.Argument(help="A summary's id (y_…), or an unambiguous beginning of it.")]
Receipt = Annotated[str, typer.Argument(help="The receipt of a recorded window.")]
Limit = Annotated[int, typer.Option("--limit", "-n", help="At most so many.")]
Project = Annotated[str | None, typer.Option("--project", "-p", help="A project's name, alias or id.")]
NewIn = Annotated[str | None, typer.Option("--project", "-p", help="Where a new session belongs; by name or alias.")]
Provider = Annotated[
    str | None, typer.Option("--provider", help="openai or anthropic: the messages as it takes them, as JSON.")
]
Reason = Annotated[str, typer.Option("--reason", "-r", help="Why, in your words; it is kept.")]


def add_to(app: typer.Typer) -> None:
    session = typer.Typer(no_args_is_help=True)
    _add_looking(session)
    _add_windows(session)
    _add_history(session)
    app.add_typer(
        session, name="session", help="Conversations: append, window, compact, search.", rich_help_panel=SESSIONS
    )


def _adder(app: typer.Typer, panel: str) -> Callable[..., None]:
    def add(function: Callable[..., Any], view: str, **more: Any) -> None:
        command(app, panel, view=f"session_showing.{view}", name=function.__name__.strip("_"), **more)(function)

    return add


def _add_looking(app: typer.Typer) -> None:
    add = _adder(app, LOOK)
    add(list_, "infos", past=PAST)
    add(show, "shown", past=PAST)
    add(grep, "grep", past=PAST)
    add(expand, "expansion", past=PAST)
    add(dag, "dag", past=PAST)


def _add_windows(app: typer.Typer) -> None:
    add = _adder(app, WINDOW)
    add(assemble, "assembly", past=PAST, writes_with="record")
    add(reopen, "assembly")
    add(compact, "compaction", options=UNKEYED)
    add(invalidate, "change", options=WRITES)
    add(restore, "restored", options=WRITES)


def _add_history(app: typer.Typer) -> None:
    add = _adder(app, HISTORY)
    add(append, "message", options=UNDATED, creates=True)
    add(reconcile, "change", options=WRITES, creates=True)
    for function in (truncate, clear):
        add(function, "change", options=WRITES)
    add(alias, "info", options=WRITES)
    command(app, HISTORY, view="extraction", name="extract", options=UNKEYED)(extract)
    command(app, HISTORY, view="session_showing.info", name="seed-extraction", options=WRITES)(seed_extraction)
    add(summary, "summary", options=WRITES, past=PAST, writes_with="content")


def _known(ledger: Ledger, name: str) -> Any:
    """The session, which has to be there."""
    found = ledger.session(name)
    if found.id is None:
        raise NotFoundError(f"no session of this user is called {name!r:.60}; `session list` names those there are")
    return found


# --- look ------------------------------------------------------------------------------------------------------------


def list_(ledger: Ledger, project: Project = None, limit: Limit = 50) -> Any:
    """The sessions, the one opened last first."""
    return listed(ledger.sessions.list, limit, project=project)


def show(
    ledger: Ledger,
    name: Name,
    limit: Annotated[int, typer.Option("--limit", "-n", help="The last so many messages.")] = 50,
    before: Annotated[int | None, typer.Option("--before", help="Those before this position, to page back.")] = None,
    text: Annotated[bool, typer.Option("--text", "-t", help="Each message whole.")] = False,
    hidden: Annotated[bool, typer.Option("--hidden", help="Also what was truncated, replaced or cleared.")] = False,
    summaries: Annotated[bool, typer.Option("--summaries", help="Also every summary, whatever became of it.")] = False,
) -> Any:
    """Show the messages of a session, oldest first."""
    from ledger.cli.session_showing import InFull, Shown

    session, after = _known(ledger, name), Behind(before) if before is not None else None
    return (InFull if text else Shown)(
        session=session.info(),
        summary=session.abstract,
        messages=list(session.messages(limit=limit, after=after, include_hidden=hidden)),
        summaries=listed(session.summaries.list)[::-1] if summaries else None,
    )


def grep(
    ledger: Ledger,
    name: Name,
    pattern: Annotated[str, typer.Argument(help='Words, "quoted texts", AND, OR, NOT and parentheses.')],
    scope: Annotated[str, typer.Option("--scope", help="message, summary or both.")] = "both",
    role: Annotated[str | None, typer.Option("--role", help="Messages of this role only.")] = None,
    since: Annotated[str | None, typer.Option("--since", metavar="TIME", help="Said from this time on.")] = None,
    before: Annotated[str | None, typer.Option("--before", metavar="TIME", help="Said before this time.")] = None,
    last: Annotated[str | None, typer.Option("--last", help="Of the last 12h, 7d, 2w or 3m, up to now.")] = None,
    limit: Limit = 20,
    everywhere: Annotated[bool, typer.Option("--everywhere", help="In every session of the user.")] = False,
    hidden: Annotated[bool, typer.Option("--hidden", help="Also what is hidden or out of use.")] = False,
) -> Any:
    """The messages and summaries that a pattern matches, newest first."""
    from ledger.cli.session_showing import Found

    if last is not None and since is not None:
        raise RejectedError("--since and --last both say from when; give one of them")
    if last is not None:  # whose "m" is a month of 30 days, and not a minute
        since = f"{int(last[:-1]) * 30}d" if re.fullmatch(r"\d{1,9}m", last, re.ASCII) else last
    options: dict[str, Any] = {"scope": scope, "role": role, "since": since, "until": before, "limit": limit}
    found = (ledger.sessions if everywhere else _known(ledger, name)).grep(pattern, include_hidden=hidden, **options)
    return Found(hits=list(found), total=found.total, searched=found.searched, is_exact=found.is_exact, hint=found.hint)


def expand(
    ledger: Ledger,
    name: Name,
    what: Annotated[
        list[str], typer.Argument(metavar="ID...", help="Summaries by id (y_…), messages by position (45, or 45-67).")
    ],
    max_tokens: Annotated[int, typer.Option("--max-tokens", help="What the messages may take together.")] = 4000,
) -> Any:
    """What summaries stand for, down to the messages, whole and in the order in which they were said."""
    found = _known(ledger, name).expand(what, budget=max_tokens)
    if not found.messages and not found.rest:
        raise NotFoundError(f"the session {name!r:.60} has no summary or message {what[0]!r:.60}")
    return found


def dag(
    ledger: Ledger,
    name: Name,
    format: Annotated[str, typer.Option("--format", "-f", help="tree, mermaid or dot.")] = "tree",
    everything: Annotated[
        bool, typer.Option("--all", help="With the summaries that stand for nothing any more.")
    ] = False,
) -> Any:
    """Draw a session's window, oldest first, with the graph of the underlying summaries."""
    found = _known(ledger, name).summaries.graph(include_replaced=everything)
    return found if format == "tree" else found.draw(format)


# --- keep it within a window -----------------------------------------------------------------------------------------


def assemble(
    ledger: Ledger,
    name: Name,
    budget: Annotated[int, typer.Argument(help="Tokens that the window may take.")],
    query: Annotated[str | None, typer.Option("--query", help="Weave in what is remembered about this.")] = None,
    share: Annotated[float, typer.Option("--share", help="At most this part of the budget for it.")] = 0.25,
    tail: Annotated[int, typer.Option("--tail", help="So many of the newest items come first.")] = 32,
    record: Annotated[bool, typer.Option("--record", help="Record what was given, for reopen.")] = False,
    provider: Provider = None,
) -> Any:
    """The newest of a session's window that fits a budget of tokens."""
    found = _known(ledger, name).window(budget, query=query, share=share, tail=tail, receipt=record)
    return found if provider is None else found.render(provider)


def reopen(ledger: Ledger, name: Name, receipt: Receipt, provider: Provider = None) -> Any:
    """Show a recorded window as it was delivered."""
    found = _known(ledger, name).reopen(receipt)
    return found if provider is None else found.render(provider)


def compact(
    ledger: Ledger,
    by: WriteOptions,
    name: Name,
    budget: Annotated[int | None, typer.Option("--budget", help="Tokens that the window is meant for.")] = None,
    force: Annotated[bool, typer.Option("--force", help="One step more than is due.")] = False,
    until_under: Annotated[
        bool, typer.Option("--until-under", help="Until it fits the budget, into the newest items too.")
    ] = False,
) -> Any:
    """Put summaries in the place of older messages; without a model (LEDGER_MODEL) each is their cut beginning."""
    if until_under and budget is None:
        raise typer.BadParameter("--until-under needs a --budget")
    return _known(ledger, name).compact(budget, until_under=until_under, force=force, **by)


def invalidate(
    ledger: Ledger,
    by: WriteOptions,
    name: Name,
    id: SummaryId,
    subtree: Annotated[bool, typer.Option("--subtree", help="All underlying summaries too.")] = False,
    reason: Reason = "",
) -> Any:
    """Take a summary out of use: what it was written from is in the window again."""
    return ledger.session(name).summaries.invalidate(id, subtree=subtree, reason=reason, **by)


def restore(ledger: Ledger, by: WriteOptions, name: Name, id: SummaryId, reason: Reason = "") -> Any:
    """Bring an invalidated summary back into the window."""
    return ledger.session(name).summaries.restore(id, reason=reason, **by)


# --- say more, or less -----------------------------------------------------------------------------------------------


def append(
    ledger: Ledger,
    by: WriteOptions,
    name: Annotated[str, typer.Argument(help="A session's name, alias or id; a new one begins with this message.")],
    role: Annotated[str, typer.Argument(help="system, developer, user, assistant or tool.")],
    content: Annotated[str, typer.Argument(metavar="TEXT", help='The text, or "-" for standard input.')] = "",
    part: Annotated[
        list[str],
        typer.Option(
            "--part", metavar="JSON", help="An object with a type, like tool_use or tool_result; may be given again."
        ),
    ] = [],  # noqa: B006
    created_at: Annotated[
        str | None,
        typer.Option("--created-at", "--occurred-at", metavar="TIME", help="When it was said, in ISO 8601."),
    ] = None,
    tokens: Annotated[int | None, typer.Option("--tokens", help="As the model's own tokenizer counts them.")] = None,
    model: Annotated[str, typer.Option("--model", help="The model that wrote it.")] = "",
    speaker: Annotated[str, typer.Option("--speaker", help="Who said it, where several share a role.")] = "",
    project: NewIn = None,
) -> Any:
    """Add a message to a session."""
    parts = [_part(number, text) for number, text in enumerate(part, 1)]
    asker: dict[str, Any] = {"role": role, "token_count": tokens, "model": model, "speaker": speaker}
    asker |= {"occurred_at": created_at} if created_at is not None else {}
    return ledger.session(name, project=project).append(content=content, parts=parts, **asker, **by)


def _part(number: int, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise typer.BadParameter(f"the one given as number {number} is no JSON", param_hint="--part") from None


def reconcile(
    ledger: Ledger,
    by: WriteOptions,
    name: Name,
    file: Annotated[str, typer.Argument(help='A JSON list of messages, or one a line; "-" for standard input.')],
    replace: Annotated[bool, typer.Option("--replace", help="Make them the whole history.")] = False,
    project: NewIn = None,
) -> Any:
    """Bring a session to what a transcript says: append what is missing, replace from the first message that differs."""
    session, found = ledger.session(name, project=project), _transcript(file)
    return session.replace(found, **by) if replace else session.reconcile(found, **by)


def _transcript(path: str) -> list[Any]:
    """The messages of a file; one that is blank is a mistake rather than a conversation of nothing."""
    what, text = ("standard input", stdin_text(FILE_BYTES + 1)) if path == "-" else (path, _file_text(path))
    if len(text) > FILE_BYTES:
        raise RejectedError(f"{what} is too long; at most {FILE_BYTES:,} characters are allowed", rule="size")
    if not text.strip():
        raise RejectedError(f"{what} is blank; a conversation of nothing is []")
    if text.lstrip().startswith("["):
        return list(_parsed(text, what))
    lines = enumerate(text.split("\n"), 1)
    return [_parsed(line, f"line {number:,} of {what}") for number, line in lines if line.strip()]


def _file_text(path: str) -> str:
    try:
        with open(path, encoding="utf-8-sig") as file:
            return file.read(FILE_BYTES + 1)
    except FileNotFoundError:
        raise NotFoundError(f"there is no file {path}") from None
    except (OSError, ValueError) as error:
        raise RejectedError(
            f"{path} cannot be read: {getattr(error, 'strerror', None) or 'it is no UTF-8 text'}"
        ) from None


def _parsed(text: str, what: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        why = error.msg if isinstance(error, json.JSONDecodeError) else "it is nested too deep"
        raise RejectedError(f"{what} is no JSON: {why}; give a list of messages, or one message a line") from None


def truncate(
    ledger: Ledger,
    by: WriteOptions,
    name: Name,
    keep_last: Annotated[int, typer.Argument(metavar="KEEP", help="How many of the last messages stay.")],
) -> Any:
    """Hide all but the last messages; they stay in the log, and undo brings them back."""
    return ledger.session(name).truncate(keep_last, **by)


def clear(ledger: Ledger, by: WriteOptions, name: Name) -> Any:
    """Hide every message, and begin the session again."""
    return ledger.session(name).clear(**by)


def alias(
    ledger: Ledger, by: WriteOptions, name: Name, alias: Annotated[str, typer.Argument(help="The other name.")]
) -> Any:
    """Give a session another name."""
    session = ledger.session(name) if ledger.session(alias).id is not None else _known(ledger, name)
    return session.add_alias(alias, **by)


def extract(ledger: Ledger, by: WriteOptions, name: Name, using: Using = None, since: Since = None) -> Any:
    """Read the messages since the last time for what to remember; by a model or by rules."""
    return _known(ledger, name).extract(method=using, since=since, **by)


def seed_extraction(
    ledger: Ledger,
    by: WriteOptions,
    name: Name,
    parent: Annotated[str | None, typer.Option("--parent", help="The session that this one branched off.")] = None,
    up_to: Annotated[int | None, typer.Option("--up-to", help="The position of the last message to pass over.")] = None,
) -> Any:
    """Pass over what a branch has in common with the session that it was copied from: it is extracted there."""
    return _known(ledger, name).skip_extraction(parent=parent, until=up_to, **by)


def summary(
    ledger: Ledger,
    by: WriteOptions,
    name: Name,
    content: Annotated[
        str | None, typer.Argument(metavar="TEXT", help='Set it to this, "" for none, "-" for standard input.')
    ] = None,
) -> Any:
    """The summary of a whole session that somebody set, or set it."""
    session = _known(ledger, name)
    if content is None:
        return session.abstract
    if not hasattr(session, "set_abstract"):
        raise RejectedError("a summary is set today: without --as-of")
    return session.set_abstract(content, **by)
