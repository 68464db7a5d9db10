"""Commands made of signatures and docstrings: the one file that knows the parser of the command line, cyclopts.

What Python takes by its place is an argument, every keyword an option of the same name. What they mean stands in the method's
docstring, or in the table of what many methods share; a parameter without help is an error.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
import types as runtime
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import inf
from pathlib import Path
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin

from cyclopts import App, CycloptsError, Group, Parameter, Token, UnknownCommandError, UnusedCliTokensError
from cyclopts.exceptions import UnknownOptionError

from ledger import __version__, types
from ledger.cli import completing
from ledger.cli.by_hand import CHANGED, HAND, OTHERS
from ledger.cli.calling import MARK, STDIN, Call
from ledger.cli.docstrings import Field, fields_of, first_lines
from ledger.cli.methods import (
    AREAS,
    OF_A_SESSION,
    OF_THE_FILE,
    PANELS,
    SHORT,
    Method,
    named,
    of_area,
)
from ledger.cli.output import Usage, say
from ledger.cli.views import Raw
from ledger.domain.harmless import one_line

OPTIONS = Group("Options", sort_key=2)
WHO = Group("Who writes, and when", sort_key=3)
EVERYWHERE = Group("Of every command", sort_key=4)
AREAS_OF = Group("Namespaces, each with commands of its own", sort_key=80)
BESIDES = Group("Besides", sort_key=90)
EPILOGUE = "Exit codes: 0 done, 1 a check failed, 2 wrong usage, 3 not found, 4 conflict or rejected."
KEYWORD = inspect.Parameter.KEYWORD_ONLY
PLACE = inspect.Parameter.POSITIONAL_ONLY
DIGITS = 19  # more are no position of an event
_CHANGE = "memory-ledger supersede records a new fact, memory-ledger revise another wording"
_REMOVE = "memory-ledger retract takes a memory out of use, memory-ledger erase removes its text for good"
MEANT = {  # words that people type first, each with the command for it
    "at": "--as-of behind a command that reads answers as of then: memory-ledger recall QUERY --as-of 2026-05-03",
    "search": "memory-ledger recall QUERY searches",
    "find": "memory-ledger recall QUERY searches",
    "list": "memory-ledger memories list lists memories, memory-ledger review candidates",
    "get": "memory-ledger memories get ID shows a memory",
    "show": "memory-ledger memories get ID shows a memory, memory-ledger why ID why it is believed",
    "update": _CHANGE,
    "delete": _REMOVE,
    "forget": _REMOVE,
    "remove": _REMOVE,
    "log": "memory-ledger history audit lists events, newest first, memory-ledger history log reads them in order",
}


# --- values ----------------------------------------------------------------------------------------------------------


def _number_or_text(kind: object, tokens: Sequence[Token]) -> str | int | list[str | int]:
    """Digits are a position."""
    found = [int(each.value) if _is_number(each.value) else each.value for each in tokens]
    return found if get_origin(kind) is list else found[0]


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < DIGITS


def _json(kind: object, tokens: Sequence[Token]) -> object:
    found = []
    for each in tokens:
        try:
            found.append(json.loads(each.value))
        except (ValueError, RecursionError):
            raise ValueError(f"{each.value!r:.60} is no JSON") from None
    return found if get_origin(kind) is list else found[0]


def _metadata(kind: object, tokens: Sequence[Token]) -> dict[str, object]:
    """``ticket=4711`` is a key and its value, a JSON object several; a value that is no JSON is a text."""
    found = dict[str, object]()
    for each in tokens:
        key, equals, value = each.value.partition("=")
        if each.value.startswith("{"):
            given = _json(dict, [each])
            assert isinstance(given, dict)
            found |= given
        elif not equals:
            raise ValueError(f"{each.value!r:.60} is no KEY=VALUE")
        else:
            found[key] = _plain(value)
    return found


def _plain(text: str) -> object:
    """A number, true, false, null or a quoted text as JSON has them; every other text as it is."""
    try:
        found: object = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return text if isinstance(found, list | dict) or found in (inf, -inf) or found != found else found


def _origin(kind: object, tokens: Sequence[Token]) -> object:
    """``actor=crawler`` names an origin, as ``{"actor": "crawler"}`` does in Python; digits are a position, the rest is an id."""
    text = tokens[0].value
    if text.startswith("{"):
        return _json(kind, tokens)
    what, equals, name = text.partition("=")
    if equals and what in get_args(types.OriginKind):
        return {what: name}
    return int(text) if _is_number(text) else text


class Shell:
    """What types of Python are on a command line; a parameter whose type is none of these is not offered."""

    Point = Annotated[str | int, Parameter(converter=_number_or_text)]
    Points = Annotated[list[str | int], Parameter(converter=_number_or_text)]
    Json = Annotated[Any, Parameter(converter=_json)]
    Jsons = Annotated[list[Any], Parameter(converter=_json, json_list=False)]
    Metadata = Annotated[Any, Parameter(converter=_metadata, n_tokens=-1)]
    Origin = Annotated[Any, Parameter(converter=_origin)]


_TYPES: dict[str, Any] = {  # names in annotations that mean something else here
    "Iterable": list, "Sequence": list, "Time": str, "Since": str, "Moment": Shell.Point, "StrPath": Path, "Given": Path,
    "EmbedderLike": str, "ModelLike": str, "os": runtime.SimpleNamespace(PathLike={str: Path}),
    "Callable": {}, "Subject": Shell.Point, "Triple": dict,
}  # fmt: skip
_BY_NAME: dict[str, Any] = {  # parameters whose type says too little
    "signing_key": Path | None, "public_key": Path | None, "parts": Shell.Jsons, "tool_calls": Shell.Jsons, "extra": Shell.Json,
    "transcript": Path, "messages": Path, "relations": Shell.Jsons, "without": Shell.Origin,
    "metadata": Shell.Metadata,
    "extract": types.Extracting, "policy": Shell.Json, "ids": Shell.Points,
    "over": list[str], "target": Shell.Point, "proof": Path,
}  # fmt: skip
_ON_A_COMMAND_LINE = {  # how a value that is an object in Python is written here
    "without": " Here an origin is KIND=NAME: actor=crawler, session=s1.",
    "relations": ' Here each is JSON: \'["Ana", "works_at", "Acme"]\'; may be given again.',
    "parts": " Each is a JSON object; may be given again.",
    "tool_calls": " Each is a JSON object; may be given again.",
    "extra": " As a JSON object.",
    "metadata": " Here KEY=VALUE, again for each; a value is JSON (4711, true, null), or else a text.",
    "messages": " Here a file of JSON, of one message a line, or of lines like 'user: …'; - for standard input.",
    "policy": " As a JSON object: '{\"gain\": 0.05}'.",
}
_NOT_OFFERED = {"progress", "stop", "cancel", "context", "summarizer"}


def offered(method: Method) -> Iterator[inspect.Parameter]:
    """The parameters of a method as those of a command."""
    change = CHANGED.get(method.key)
    drop = () if change is None else change.drop
    yield from _offered(method, [each for each in method.parameters if each.name not in drop])
    if change is not None:
        own = Method(HAND, method.name, change.run, of_the_past=False)
        yield from _offered(own, [each for each in own.parameters if each.name not in method.names - set(drop)])
    if method.options == "PolicyChanges":
        yield from _keys(fields_of("PolicyChanges"), OPTIONS)


def _offered(method: Method, parameters: Iterable[inspect.Parameter]) -> Iterator[inspect.Parameter]:
    names = {**vars(types), **vars(sys.modules[method.function.__module__]), **_TYPES}
    help_of = method.doc.args
    for each in parameters:
        if each.kind is inspect.Parameter.VAR_KEYWORD or each.name in _NOT_OFFERED or _of_the_file(method, each):
            continue
        text = help_of.get(each.name) or types.SHARED.get(each.name)
        if text is None:
            raise NotImplementedError(f"{method.area}.{method.name}: no help for {each.name}")
        by_place = each.kind is not KEYWORD
        text += _ON_A_COMMAND_LINE.get(each.name, "")
        yield parameter(each.name, _type(method, each, names), text, default=each.default, by_place=by_place)


def _of_the_file(method: Method, each: inspect.Parameter) -> bool:
    return method.key in OF_THE_FILE and each.name == "path"


def _type(method: Method, each: inspect.Parameter, names: dict[str, Any]) -> Any:
    if each.name in _BY_NAME:
        return _BY_NAME[each.name]
    kind = eval(str(each.annotation), names)
    members = get_args(kind) if get_origin(kind) in (Union, runtime.UnionType) else (kind,)
    if kind == list[str | int]:
        return Shell.Points
    if int in members and str in members:
        return Shell.Point | None if type(None) in members else Shell.Point
    if Path in members:
        return Path | None if type(None) in members else Path
    if each.name == "statuses":
        one, several = cast("Any", Literal), cast("Any", list)
        return several[one[(*get_args(get_args(kind)[0]), "all")]]
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
    """A parameter of a command: an argument where Python takes it by its place, or else an option."""
    required = default is inspect.Parameter.empty
    if isinstance(default, tuple):
        default = list(default)
    elif isinstance(default, str) and get_origin(kind) is list:
        default = [default]
    negative: str | tuple[str, ...] | None = None if default is True or _may_be_off(kind) else ()
    settings: dict[str, Any] = {"help": plain(text), "negative": negative, "alias": alias}
    settings["show_default"] = not required and default not in (None, False, "", [])
    if not by_place:
        settings["group"] = group
    if completer := completing.of(name):
        settings["completer"] = completer
    kind = Annotated[kind, Parameter(**settings)]
    return inspect.Parameter(name, PLACE if by_place else KEYWORD, default=default, annotation=kind)


def _may_be_off(kind: object) -> bool:
    """Whether this is a switch that nobody has to give: it can be given as off, then."""
    return {bool, type(None)} <= {*get_args(kind)}


def plain(text: str) -> str:
    """Help without the marks of code, which a terminal shows as they are."""
    return one_line(text.replace("``", "").replace("`", ""))


def _keys(fields: Iterable[Field], group: Group) -> Iterator[inspect.Parameter]:
    """The keys of a typed dictionary as options that nobody has to give."""
    names = {**vars(types), **_TYPES}
    for each in fields:
        kind = eval(each.annotation, names)
        yield parameter(each.name, kind | None, each.text, default=None, group=group)


# --- options that many commands share -------------------------------------------------------------------------------


def shared(method: Method) -> Iterator[inspect.Parameter]:
    """Who writes, of which moment a read is, and what every command takes."""
    if method.pages:
        yield parameter("all_pages", Annotated[bool, Parameter(name="--all")], "Go through every page.", default=False)
    if method.lists:
        yield parameter("csv", bool, "The rows as CSV, with a first row of names.", default=False)
        yield parameter("jsonl", bool, "The rows as JSON, one a line.", default=False)
    if method.of_the_past:
        text = "As known then: a position, an event's id, a time with its offset, or a date."
        yield parameter("as_of", str | None, text, default=None)
        yield parameter("valid_at", str | None, "What was true in the world at this time.", default=None)
    if method.writes:
        actor = "Who does it (LEDGER_ACTOR)."
        yield parameter("actor", str | None, actor, default=None, group=WHO)
    if method.options is not None:
        own = {each.name for each in method.parameters}
        keys = fields_of("WriteOptions") if method.options != "GroupOptions" else ()
        yield from (each for each in _keys([*fields_of("GroupOptions"), *keys], WHO) if each.name not in own)
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


def command(method: Method) -> Callable[..., Call]:
    """A function for the parser: it has the parameters of a command, and returns what is to be done."""
    own = list(offered(method))
    if method.area in OF_A_SESSION:
        own = [SESSION[0], *own, SESSION[1]]
    taken = {each.name for each in own}
    more = [each for each in shared(method) if each.name not in taken]

    def call(**given: Any) -> Call:
        given = {name: _unmarked(value) for name, value in given.items()}
        around = {each.name: given.pop(each.name) for each in more}
        return Call(method, given, around)

    return _with(call, [*own, *more], method.doc.first)


def _listed(text: str) -> Callable[..., None]:
    """What a name stands for in a list."""

    def nothing() -> None: ...

    return _with(nothing, (), text)


def _with(function: Callable[..., Any], parameters: Sequence[inspect.Parameter], text: str) -> Callable[..., Any]:
    order = sorted(parameters, key=lambda each: each.kind)
    function.__signature__ = inspect.Signature(order)  # type: ignore[attr-defined]
    function.__annotations__ = {each.name: each.annotation for each in order}
    function.__doc__ = plain(text)
    return function


def cli_name(name: str) -> str:
    return name.strip("_").replace("_", "-")


def root(words: Sequence[str] = (), *, whole: bool = False) -> App:
    """The command line, as much of it as these words need: one command, one namespace, or all names for help.

    ``whole`` is every command with its options, for the completion of a shell.
    """
    first = next((each for each in words if not each.startswith("-")), None)
    others = {name: Method(HAND, name, each, of_the_past=False) for name, each in BY_HAND.items()}
    app = _app(
        name="memory-ledger",
        help="A memory for LLM agents that can account for itself: every change is an event in one file.",
        help_epilogue=f"The ledger is --db, or LEDGER_PATH, or memory.db here; see config. {EPILOGUE}",
        version=f"memory-ledger {__version__}",
    )
    groups = [(Group(title, sort_key=number), of) for number, (title, of) in enumerate(PANELS.items())]
    panels = {name: group for group, of in groups for name in of}
    order = list(panels)
    known = {*panels, *AREAS, *others}
    wanted = known if whole or first not in known else {first}
    for name in (each for each in panels if each in wanted):
        made = _flat(name) if whole or name == first else _listed(_first_line(name))
        app.command(made, name=name, group=panels[name], sort_key=order.index(name))
    for area in (each for each in AREAS if each in wanted and each != "summaries"):
        app.command(area_app(area, filled=whole or area == first))
    for name in (each for each in others if each in wanted):
        app.command(command(others[name]), name=name, group=BESIDES)
    return app


def area_app(area: str, *, filled: bool = True) -> App:
    """A namespace with its commands, or its name alone."""
    app = _app(name=area, help=_about(area), group=AREAS_OF)
    for each in of_area(area) if filled else ():
        if each.key not in SHORT:
            app.command(command(each), name=cli_name(each.name))
    if area == "session" and filled:
        app.command(area_app("summaries"))
    return app


def _flat(name: str) -> Callable[..., Call]:
    return command(method_of(name))


def method_of(name: str) -> Method:
    """The method behind a command that stands in no namespace."""
    for (area, each), short in SHORT.items():
        if short == name:
            return named(area, each)
    return named("", name.replace("-", "_"))


def _first_line(name: str) -> str:
    """What a command that stands in no namespace says of itself."""
    for (area, each), short in SHORT.items():
        if short == name:
            return first_lines(AREAS[area].partition(":")[0])[each]
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


def completion(call: Call, shell: Literal["bash", "zsh", "fish"] | None = None, *, script: bool = False) -> object:
    """Install the completion of commands, options, ids, kinds and projects for a shell.

    Args:
        shell: Which shell; None for the one that runs.
        script: Print the script, and install nothing.
    """
    if script:
        return Raw(root(whole=True).generate_completion(shell=shell))
    place = root(whole=True).install_completion(shell=shell)
    say(f"installed at {place}; it works in a new shell, until that file is deleted", quiet=call.around["quiet"])
    return None


def _without_lists(error: CycloptsError) -> str:
    """What is wrong, without the first of all commands, which help has in order; ``at`` in Python is here ``--as-of``."""
    text = re.sub(r" Available commands:.*", "", one_line(str(error))).rstrip(".")
    if isinstance(error, UnknownOptionError) and any("--as-of" in each.names for each in error.argument_collection):
        text = re.sub(r"(?<=Unknown option: --at\.).*", " Did you mean --as-of?", text)
    if isinstance(error, UnknownOptionError) and error.token is not None:
        option = str(error.token.value).partition("=")[0]
        place = option.lstrip("-").replace("-", "_").upper()
        if any(place in each.names for each in error.argument_collection or ()):
            return f"{place} is an argument: give its value in its place, without {option}"
    return text


def _unknown(words: list[str], error: CycloptsError) -> str:
    """What is wrong with the words that should name a command."""
    if words[0] in ("help", "version"):
        return f"--{words[0]} is an option"
    if (option := next((each for each in words if each.startswith("-")), None)) is not None:
        before = words[: words.index(option)]
        area = [each for each in before if each in AREAS]
        if area == before:
            return f"options stand behind the command: memory-ledger {' '.join([*area, 'COMMAND'])} {option} …"
    if (meant := _meant(words[0])) is not None:
        return f"there is no command {words[0]!r}: {meant}"
    return _without_lists(error)


def _meant(word: str) -> str | None:
    """Return the command that somebody means by a word that is none; None for a word that nobody knows."""
    if word in MEANT:
        return MEANT[word]
    areas = [area for area in AREAS if any(cli_name(method.name) == word for method in of_area(area))]
    commands = [f"memory-ledger {area} {word}" for area in areas if area != "summaries"]
    return f"the command is {' or '.join(commands)}" if commands else None


def _is_text(word: str) -> bool:
    """Whether a word that begins as an option does is none: a lone hyphen, or a text with a blank in it."""
    return word == "-" or (word.startswith("-") and any(map(str.isspace, word)) and "=" not in word.split()[0])


def _unmarked(value: object) -> object:
    if isinstance(value, list):
        return [_unmarked(each) for each in value]
    return value[len(MARK) :] if isinstance(value, str) and value.startswith(MARK) and value != STDIN else value


BY_HAND = OTHERS | {"completion": completion}


def understood(words: Sequence[str]) -> Call | None:
    """What these words ask for; None where the parser answered by itself, with help or the version.

    ``Usage`` says what is wrong with them.
    """
    tab = list(words[:1]) == ["__complete"]  # what a shell asks at a TAB, of the words that stand there
    app = root(words[1:] if tab else words)
    words = [MARK + each if _is_text(each) else each for each in words]
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
    return cast("Call", command(**bound.arguments))
