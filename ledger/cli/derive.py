"""The commands, made from the signatures and docstrings of methods; only this file uses cyclopts, which parses command lines.

A positional parameter is an argument, a keyword parameter an option. Its help stands in the docstring or ``ledger.types.SHARED``.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
import types as runtime
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from math import inf
from pathlib import Path
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin

from cyclopts import App, CycloptsError, Group, Parameter, Token, UnknownCommandError, UnusedCliTokensError
from cyclopts.exceptions import UnknownOptionError

from ledger import __version__, types
from ledger.cli import asking, completing, keyed
from ledger.cli.by_hand import CHANGED, HAND, OTHERS
from ledger.cli.calling import ShellCall, marked, unmarked
from ledger.cli.docstrings import Field, fields_of, first_lines
from ledger.cli.methods import (
    AREAS,
    OF_A_SESSION,
    OF_THE_FILE,
    PANELS,
    SHORT,
    Method,
    cli_name,
    method_named,
    of_area,
)
from ledger.cli.other_words import hint_at_command
from ledger.cli.output import Stopped, Usage, say
from ledger.cli.views import Raw
from ledger.domain.errors import RejectedError
from ledger.domain.text import one_line

OPTIONS = Group("Options", sort_key=2)
WHO = Group("Who writes, and when", sort_key=3)
EVERYWHERE = Group("Of every command", sort_key=4)
NAMESPACES = Group("Namespaces, each with commands of its own", sort_key=80)
BESIDES = Group("Besides", sort_key=90)
EPILOGUE = "Exit codes: 0 done, 1 a check failed, 2 wrong usage, 3 not found, 4 conflict or rejected."
KEYWORD = inspect.Parameter.KEYWORD_ONLY
PLACE = inspect.Parameter.POSITIONAL_ONLY
DIGITS = 19  # a number with so many digits is too long for a position


# --- values ----------------------------------------------------------------------------------------------------------


def _number_or_text(kind: object, tokens: Sequence[Token]) -> str | int | list[str | int]:
    """Return the values; a value of digits becomes a number, which is a position."""
    values = [int(token.value) if _is_number(token.value) else token.value for token in tokens]
    return values if get_origin(kind) is list else values[0]


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < DIGITS


def _json(kind: object, tokens: Sequence[Token]) -> object:
    values = []
    for token in tokens:
        try:
            values.append(json.loads(token.value))
        except (ValueError, RecursionError):
            raise ValueError(f"{token.value!r:.60} is not JSON") from None
    return values if get_origin(kind) is list else values[0]


def _metadata(kind: object, tokens: Sequence[Token]) -> dict[str, object]:
    """Return metadata; KEY=VALUE gives one key (the value is JSON or else a text), a JSON object gives several keys."""
    metadata = dict[str, object]()
    for token in tokens:
        key, equals, value = token.value.partition("=")
        if token.value.startswith("{"):
            keys = _json(dict, [token])
            assert isinstance(keys, dict)
            metadata |= keys
        elif not equals:
            raise ValueError(f"{token.value!r:.60} is neither KEY=VALUE nor a JSON object")
        else:
            metadata[key] = _scalar(value)
    return metadata


def _scalar(text: str) -> object:
    """Return the value of a JSON number, true, false, null or quoted text; return every other text unchanged."""
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return text if isinstance(value, list | dict) or value in (inf, -inf) or value != value else value


def _origin(kind: object, tokens: Sequence[Token]) -> object:
    """Return an origin for ``actor=crawler`` or JSON, a position for digits, and any other text as an id."""
    text = tokens[0].value
    if text.startswith("{"):
        return _json(kind, tokens)
    prefix, equals, name = text.partition("=")
    if equals and prefix in get_args(types.OriginKind):
        return {prefix: name}
    return int(text) if _is_number(text) else text


class Shell:
    """The types of parameters that need a converter on a command line."""

    Point = Annotated[str | int, Parameter(converter=_number_or_text)]
    Points = Annotated[list[str | int], Parameter(converter=_number_or_text)]
    Json = Annotated[Any, Parameter(converter=_json)]
    Jsons = Annotated[list[Any], Parameter(converter=_json, json_list=False)]
    Metadata = Annotated[Any, Parameter(converter=_metadata, n_tokens=-1)]
    Origin = Annotated[Any, Parameter(converter=_origin)]
    Address = Annotated[list[str] | None, Parameter(consume_multiple=(0, 1))]


_TYPES: dict[str, Any] = {  # names in annotations that mean another type on a command line
    "Iterable": list, "Sequence": list, "Time": str, "Since": str, "Moment": Shell.Point, "StrPath": Path, "Given": Path,
    "EmbedderLike": str, "ModelLike": str, "os": runtime.SimpleNamespace(PathLike={str: Path}),
    "Callable": {}, "Subject": Shell.Point, "Triple": dict,
}  # fmt: skip
_BY_NAME: dict[str, Any] = {  # parameters whose annotation is too general
    "signing_key": Path | None, "public_key": Path | None, "parts": Shell.Jsons, "tool_calls": Shell.Jsons, "raw": Shell.Json,
    "transcript": Path, "messages": Path, "relations": Shell.Jsons, "without": Shell.Origin, "where": Shell.Json, "proof": Path,
    **dict.fromkeys(keyed.NAMESPACES, Annotated[Any, Parameter(converter=keyed.labels, n_tokens=1)]), "extra": Shell.Json,
    "http": Shell.Address, "policy": Shell.Json, "ids": Shell.Points, "target": Shell.Point, "metadata": Shell.Metadata,
    "over": list[str],
}  # fmt: skip
_ON_A_COMMAND_LINE = keyed.HELPS | {  # more help for values that are objects in Python: their form on a command line
    "without": " Here an origin is KIND=NAME: actor=crawler, session=s1.",
    "relations": ' Here each is JSON: \'["Ana", "works_at", "Acme"]\'; may be given again.',
    "parts": " Each is a JSON object; may be given again.",
    "tool_calls": " Each is a JSON object; may be given again.",
    "extra": " As a JSON object.",
    "metadata": " Here KEY=VALUE, again for each; a value is JSON (4711, true, null), or else a text.",
    "messages": " Here a file of JSON, of one message a line, or of lines like 'user: …'; - for standard input.",
    "policy": " As a JSON object: '{\"gain\": 0.05}'.",
}
_ONLY_IN_PYTHON = {"progress", "stop", "cancel", "context", "summarizer", "settings"}  # parameters that no command has


def command_parameters(method: Method) -> Iterator[inspect.Parameter]:
    """Yield the parameters of the command of a method, without the options that many commands share."""
    change = CHANGED.get(method.key)
    drop = () if change is None else change.drop
    yield from _converted(method, [parameter for parameter in method.parameters if parameter.name not in drop])
    if change is not None:
        by_hand = Method(HAND, method.name, change.run, of_the_past=False)
        names = method.names - set(drop)
        yield from _converted(by_hand, [parameter for parameter in by_hand.parameters if parameter.name not in names])
    if method.options == "PolicyChanges":
        yield from _keys(fields_of("PolicyChanges"), OPTIONS)


def _converted(method: Method, parameters: Iterable[inspect.Parameter]) -> Iterator[inspect.Parameter]:
    """Yield parameters of Python as parameters of a command."""
    names = {**vars(types), **vars(sys.modules[method.function.__module__]), **_TYPES}
    help_of = method.doc.args
    for declared in parameters:
        name, is_keywords = declared.name, declared.kind is inspect.Parameter.VAR_KEYWORD
        if is_keywords or name in _ONLY_IN_PYTHON or (method.key in OF_THE_FILE and name == "path"):
            continue
        text = help_of.get(name) or types.SHARED.get(name)
        if text is None:
            raise NotImplementedError(f"{method.area}.{method.name}: no help for {name}")
        by_place = declared.kind is not KEYWORD
        text += _ON_A_COMMAND_LINE.get(name, "")
        yield parameter(name, _type(declared, names), text, default=declared.default, by_place=by_place)


def _type(declared: inspect.Parameter, names: dict[str, Any]) -> Any:
    if declared.name in _BY_NAME:
        return _BY_NAME[declared.name]
    kind = eval(str(declared.annotation), names)
    members = get_args(kind) if get_origin(kind) in (Union, runtime.UnionType) else (kind,)
    if kind == list[str | int]:
        return Shell.Points
    kind = members[0] if bool in members else kind  # a word such as "off" says False too
    if int in members and str in members:
        return Shell.Point | None if type(None) in members else Shell.Point
    if Path in members:
        return Path | None if type(None) in members else Path
    if declared.name == "statuses":
        literal, several = cast("Any", Literal), cast("Any", list)
        return several[literal[(*get_args(get_args(kind)[0]), "all")]]
    return kind


def parameter(
    name: str,
    kind: Any,
    text: str,
    *,
    default: object = inspect.Parameter.empty,
    by_place: bool = False,
    group: Group = OPTIONS,
    alias: str | None = None,
) -> inspect.Parameter:
    """Return a parameter of a command: an argument if ``by_place``, else an option."""
    required = default is inspect.Parameter.empty
    if isinstance(default, tuple):
        default = list(default)
    elif isinstance(default, str) and get_origin(kind) is list:
        default = [default]
    negative: str | tuple[str, ...] | None = None if default is True or _is_optional_switch(kind) else ()
    settings: dict[str, Any] = {"help": plain(text), "negative": negative, "alias": alias}
    settings["show_default"] = not required and default not in (None, False, "", [])
    if not by_place:
        settings["group"] = group
    if completer := completing.of(name):
        settings["completer"] = completer
    kind = Annotated[kind, Parameter(**settings)]
    return inspect.Parameter(name, PLACE if by_place else KEYWORD, default=default, annotation=kind)


def _is_optional_switch(kind: object) -> bool:
    """Return True for a switch of three states (on, off, left out), which needs an option --no-… for off."""
    return {bool, type(None)} <= {*get_args(kind)}


def plain(text: str) -> str:
    """Return a help text on one line, without the backticks around code."""
    return one_line(text.replace("``", "").replace("`", ""))


def _keys(fields: Iterable[Field], group: Group) -> Iterator[inspect.Parameter]:
    """Yield the keys of a typed dictionary as options that may be left out."""
    names = {**vars(types), **_TYPES}
    for field in fields:
        kind = eval(field.annotation, names)
        yield parameter(field.name, kind | None, field.text, default=None, group=group)


# --- options that many commands share -------------------------------------------------------------------------------


def shared(method: Method) -> Iterator[inspect.Parameter]:
    """Yield the options that many commands share: about pages, the moment of a read, the writer, and the output."""
    if method.pages:
        yield parameter("all_pages", Annotated[bool, Parameter(name="--all")], "Go through every page.", default=False)
    if method.lists:
        yield parameter("csv", bool, "The rows as CSV, with a first row of names.", default=False)
        yield parameter("jsonl", bool, "The rows as JSON, one object a line.", default=False)
    if method.of_the_past:
        text = "As known then: a position, an event's id, a time with its offset, or a date."
        yield parameter("as_of", str | None, text, default=None)
        yield parameter("valid_at", str | None, "What was true in the world at this time.", default=None)
    if method.writes:
        actor = "Who does it (LEDGER_ACTOR)."
        yield parameter("actor", str | None, actor, default=None, group=WHO)
    if method.options is not None:
        own = method.names
        keys = fields_of("WriteOptions") if method.options != "GroupOptions" else ()
        options = _keys([*fields_of("GroupOptions"), *keys], WHO)
        yield from (option for option in options if option.name not in own)
    yield from EVERY


EVERY = (
    parameter("db", Path | None, "The ledger's file (LEDGER_PATH, or memory.db).", default=None, group=EVERYWHERE),
    parameter("user", str | None, "Whose memory (LEDGER_USER).", default=None, group=EVERYWHERE),
    parameter("json", bool, "The answer as JSON, named as in Python.", default=False, group=EVERYWHERE),
    parameter("quiet", bool, "Ids only where there are ids; no messages.", default=False, group=EVERYWHERE, alias="-q"),
)
SESSION = (
    parameter("session_name", Annotated[str, Parameter(name="NAME")], "A session's name, alias or id.", by_place=True),
    parameter(
        "new_in", Annotated[str | None, Parameter(name="--project")], "Where a new session belongs.", default=None
    ),
)


# --- commands --------------------------------------------------------------------------------------------------------


@cache
def command(method: Method) -> Callable[..., ShellCall]:
    """Return a function for the parser: it has the parameters of a command, and returns the call to make."""
    own = list(command_parameters(method))
    if method.area in OF_A_SESSION:
        own = [SESSION[0], *own, SESSION[1]]
    names = {parameter.name for parameter in own}
    shared_options = [option for option in shared(method) if option.name not in names]

    def call(**values: Any) -> ShellCall:
        values = {name: unmarked(value) for name, value in values.items()}
        options = {option.name: values.pop(option.name) for option in shared_options}
        return ShellCall(method, values, options)

    return _with(call, [*own, *shared_options], method.doc.first)


def _help_only(text: str) -> Callable[..., None]:
    """Return a function without parameters that shows a command with its help in a list of commands."""
    return _with(lambda: None, (), text)


def _with(function: Callable[..., Any], parameters: Sequence[inspect.Parameter], text: str) -> Callable[..., Any]:
    """Give a function the signature and the help that the parser reads."""
    order = sorted(parameters, key=lambda parameter: parameter.kind)
    function.__signature__ = inspect.Signature(order)  # type: ignore[attr-defined]
    function.__annotations__ = {parameter.name: parameter.annotation for parameter in order}
    function.__doc__ = plain(text)
    return function


@cache
def root(first: str = "", *, whole: bool = False) -> App:
    """Return the parser for a first word: with the one command or namespace of that name, or with all names for help.

    Building every command takes long. ``whole`` builds every command with its options, for the completion of a shell.
    """
    app = _app(
        name="memory-ledger",
        help="A memory for LLM agents that can account for itself: every change is an event in one file.",
        help_epilogue=f"The ledger is --db, or LEDGER_PATH, or memory.db here; see config. {EPILOGUE}",
        version=f"memory-ledger {__version__}",
    )
    groups = [(Group(title, sort_key=number), names) for number, (title, names) in enumerate(PANELS.items())]
    panels = {name: group for group, names in groups for name in names}
    order = list(panels)
    included = {*panels, *AREAS, *BY_HAND} if whole or not first else {first}
    for name in (name for name in panels if name in included):
        function = command(method_of(name)) if whole or name == first else _help_only(_first_line(name))
        app.command(function, name=name, group=panels[name], sort_key=order.index(name))
    for area in (area for area in AREAS if area in included and area != "summaries"):
        app.command(area_app(area, filled=whole or area == first))
    for name in (name for name in BY_HAND if name in included and name not in panels):
        app.command(command(method_of(name)), name=name, group=BESIDES)
    return app


def area_app(area: str, *, filled: bool = True) -> App:
    """Return the parser of a namespace with its commands, or if not ``filled``, with its help only."""
    app = _app(name=area, help=_about(area), group=NAMESPACES)
    for method in of_area(area) if filled else ():
        if method.key not in SHORT:
            app.command(command(method), name=cli_name(method.name))
    if area == "session" and filled:
        app.command(area_app("summaries"))
    return app


def method_of(name: str) -> Method:
    """Return the method behind a command outside the namespaces."""
    if name in BY_HAND:
        return Method(HAND, name, BY_HAND[name], of_the_past=False)
    for (area, method), short in SHORT.items():
        if short == name:
            return method_named(area, method)
    return method_named("", name.replace("-", "_"))


def _first_line(name: str) -> str:
    """Return the first line of help of a command outside the namespaces."""
    if name in BY_HAND:
        return method_of(name).doc.first
    for (area, method), short in SHORT.items():
        if short == name:
            return first_lines(AREAS[area].partition(":")[0])[method]
    return first_lines("ledger.api")[name.replace("-", "_")]


def _about(area: str) -> str:
    if area in OF_A_SESSION:
        return {"session": "Read and write one conversation.", "summaries": "The summaries of a conversation."}[area]
    return plain(first_lines("ledger.api")[area])


def _app(**more: Any) -> App:
    settings: dict[str, Any] = {"help_format": "plaintext", "group_parameters": OPTIONS}
    settings["default_parameter"] = Parameter(negative_iterable=(), negative_none=())
    if "version" not in more:
        settings["version_flags"] = ()
    return App(**settings, **more)


def completion(
    call: ShellCall,
    shell: Literal["bash", "zsh", "fish"] | None = None,
    *,
    script: bool = False,
    yes: bool = False,
) -> object:
    """Install the completion of commands, options, ids, kinds and projects for a shell, after a question.

    Args:
        shell: The shell; None for the shell that runs.
        script: Print the script, and install nothing.
        yes: Do not ask; without a terminal, an installation needs this.
    """
    from cyclopts.completion.detect import detect_shell
    from cyclopts.completion.install import get_default_completion_path

    app = root(whole=True)
    if script:
        return Raw(app.generate_completion(shell=shell))
    chosen = shell or detect_shell()
    also = "" if chosen == "fish" else f", and a line into the startup file of {chosen}"
    if not yes:
        if not asking.is_at_a_terminal():
            raise RejectedError("without a terminal this needs --yes; --script only prints what would be written")
        if not asking.is_confirmed(f"Write {get_default_completion_path(chosen, app.name[0])}{also}?"):
            raise Stopped("nothing was written")
    place = app.install_completion(shell=chosen)
    say(f"installed at {place}; it works in a new shell, until that file is deleted", quiet=call.options["quiet"])
    return None


def _without_lists(error: CycloptsError) -> str:
    """Return the parser's error without its list of commands, which the help shows in a better order.

    For ``--at`` the hint is ``--as-of``, because the method of Python is ``at``.
    """
    text = re.sub(r" Available commands:.*", "", one_line(str(error))).rstrip(".")
    if isinstance(error, UnknownOptionError) and any(
        "--as-of" in argument.names for argument in error.argument_collection
    ):
        text = re.sub(r"(?<=Unknown option: --at\.).*", " Did you mean --as-of?", text)
    if isinstance(error, UnknownOptionError) and error.token is not None:
        option = str(error.token.value).partition("=")[0]
        place = option.lstrip("-").replace("-", "_").upper()
        if any(place in argument.names for argument in error.argument_collection or ()):
            return f"{place} is an argument: give its value in its place, without {option}"
    return text


def _unknown(words: list[str], error: CycloptsError) -> str:
    """Return the error message for words that name no command."""
    if words[0] in ("help", "version"):
        return f"--{words[0]} is an option"
    if (option := next((word for word in words if word.startswith("-")), None)) is not None:
        before = words[: words.index(option)]
        area = [word for word in before if word in AREAS]
        if area == before:
            return f"options stand behind the command: memory-ledger {' '.join([*area, 'COMMAND'])} {option} …"
    if (hint := hint_at_command(words, BY_HAND)) is not None:
        return hint
    return _without_lists(error)


BY_HAND = OTHERS | {"completion": completion}


def _first_name(words: Sequence[str]) -> str:
    """Return the first word that is no option if it names a command or a namespace, or else an empty text."""
    first = next((word for word in words if not word.startswith("-")), "")
    return first if first in BY_HAND or first in AREAS or any(first in names for names in PANELS.values()) else ""


def parsed_call(words: Sequence[str]) -> ShellCall | None:
    """Return the call that a command line describes, or None if the parser printed help or the version.

    Raises:
        Usage: The words name no command, or its options are wrong.
    """
    is_completion = list(words[:1]) == ["__complete"]  # the completion script of a shell calls the command this way
    app = root(_first_name(words[1:] if is_completion else words))
    words = marked(words)
    try:
        command, bound, _ = app.parse_args(words, exit_on_error=False, print_error=False, verbose=False)
    except UnknownCommandError as error:
        raise Usage(_unknown(list(words), error)) from None
    except UnusedCliTokensError as error:
        extra = " ".join(map(repr, error.unused_tokens or ()))
        raise Usage(
            f"too many arguments: {extra} (a text with blanks stands in quotes, a ledger behind --db)"
        ) from None
    except CycloptsError as error:
        raise Usage(_without_lists(error)) from None
    bound.apply_defaults()
    if command.__name__ != "call":
        command(*bound.args, **bound.kwargs)
        return None
    return cast("ShellCall", command(**bound.arguments))
