"""Settings from arguments, the environment and a ``ledger.toml``, in this order, each value with its origin.

A ``ledger.toml`` is read next to a ledger that the caller named, or at the path in LEDGER_CONFIG, and never from the working
directory alone. Otherwise a user in a foreign folder would run with the settings of the folder's owner. Such settings can
name a server that memories are sent to, and a variable whose value is sent there as the key. A command as a model is a program
that runs, so it is read from no file next to a ledger, except for the user's own folder ~/.memory-ledger.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import stat
import tomllib
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Struct

from ledger.domain.errors import NotFoundError, RejectedError
from ledger.domain.text import check_text, problem_of_command
from ledger.log import platform
from ledger.log.paths import path_name

if TYPE_CHECKING:
    from pydantic import BaseModel

PREFIX, CONFIG, FILE = "LEDGER_", "LEDGER_CONFIG", "ledger.toml"
ARGUMENT, DEFAULT = "argument", "default"
FILE_BYTES = 64 * 1024
# any text is valid for these, so pydantic need not be loaded to check them
_LOG = ("log_url", "log_tenant", "log_machine", "log_listen_url")
_PREFIXES = ("embedder_query_prefix", "embedder_text_prefix")
_TEXTS = ("path", "user", "actor", "client", "agent", "project", *_PREFIXES, *_LOG)
_TABLE = "log"  # the table of a file whose settings begin with log_
# in the address of a server; one with signs that should have been escaped ends at the last @
_PASSWORD = re.compile(r"(?<=://)([^/@:\s]*):[^\s\"']*@|(?<=password=)[^&\s\"']+")
_SECRET = "model_api_key"
OWN_FOLDER = "~/.memory-ledger"  # the user's own; the ledger of coding agents lies there
_RUNS = "model_command"  # begins the names of settings that make a program run, or run more often
CALLS_A_DAY, TOKENS_A_DAY = 200, 200_000  # of a command as a model (our choice)
INSIDE_MODEL = "MEMORY_LEDGER_INSIDE_MODEL"  # the variable that a command as a model finds in its environment
# the variable with a provider's key, unless the settings name another
KEYS = {"openai": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY"}
# the variable with a provider's server, as the provider's own client reads it
SERVERS = {"openai": "OPENAI_BASE_URL", "anthropic": "ANTHROPIC_BASE_URL"}


class Setting(Struct, frozen=True, kw_only=True):
    """A setting's value and its origin: "argument", the name of a variable, the path of a file, or "default"."""

    name: str
    value: object
    origin: str


class Settings(Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    """The settings that a ledger is opened with.

    ``model`` is a name ("openai:NAME", "anthropic:NAME", "local:NAME"). The model's settings replace the tokens and the
    seconds that a request asks for. ``model_command`` is a program with its arguments that takes the place of ``model``, with at
    most ``model_command_calls`` calls and ``model_command_tokens`` tokens a day.

    An ``embedder`` "onnx:DIRECTORY" reads a prefix before a question and before a text. With ``summaries`` the model writes
    the summaries of sessions. ``project`` is the command line's default project. A coding agent is asked to learn when more
    than ``learn_turns`` turns are unread, and reads at most ``learn_tokens_a_day``; 0 switches either off. While the -wal is
    larger than ``wal_mib`` MiB, writers wait a moment for readers. The settings of the table ``[log]`` name a log that
    machines share: its address, the tenant, this machine, the address for the connection that listens, and the seconds that a
    command waits.
    """

    path: str = "memory.db"
    user: str = ""
    actor: str = ""
    client: str = ""
    agent: str = ""
    project: str | None = None
    embedder: str | None = None
    embedder_query_prefix: str = ""
    embedder_text_prefix: str = ""
    model: str | None = None
    model_base_url: str | None = None
    model_api_key: str | None = None
    model_api_key_env: str | None = None
    model_max_tokens: int | None = None
    model_temperature: float | None = None
    model_timeout: float | None = None
    model_command: list[str] | None = None
    model_command_calls: int = CALLS_A_DAY
    model_command_tokens: int = TOKENS_A_DAY
    summaries: bool = True
    wal_mib: int = 64
    learn_turns: int = 20
    learn_tokens_a_day: int = 200_000
    log_url: str | None = None
    log_tenant: str | None = None
    log_machine: str | None = None
    log_listen_url: str | None = None
    log_timeout: float | None = None
    origins: dict[str, str] = {}

    def __post_init__(self) -> None:
        if self.model is not None and self.model_command is not None:
            named = [f"{name} ({self.origins.get(name, ARGUMENT)})" for name in ("model", _RUNS)]
            raise RejectedError(
                f"{' and '.join(named)} are both set; a ledger has one model, so leave one out", rule="settings"
            )

    @classmethod
    def load(cls, path: str | os.PathLike[str] | None = None, **arguments: object) -> Settings:
        """Return the settings for a ledger.

        A value is an argument that is not None, or else from ``LEDGER_*`` of the environment, or else from the
        ``ledger.toml``, or else the default.

        Raises:
            RejectedError: A value does not fit, a setting does not exist, or others may write to the file; the message names
                the origin.
            NotFoundError: LEDGER_CONFIG names a file that does not exist.
        """
        arguments_by_name = {"path": path_name(path) if path is not None else None, **arguments}
        for name in arguments_by_name:
            _check_known(name, ARGUMENT, name)
        chosen = {name: (value, ARGUMENT) for name, value in arguments_by_name.items() if value is not None}
        for name, value, origin in _of_environment(os.environ):
            chosen.setdefault(name, (value, origin))
        for name, value, origin in _of_file(chosen.get("path")):
            chosen.setdefault(name, (value, origin))
        return cls(**_checked(chosen), origins={name: origin for name, (_, origin) in chosen.items()})

    def without_log(self) -> Settings:
        """Return the settings without a shared log."""
        return msgspec.structs.replace(self, **dict.fromkeys((*_LOG, "log_timeout")))

    @property
    def names_user(self) -> bool:
        """Return True if an argument, a variable or the file names the user, even the user ""."""
        return self.user != "" or "user" in self.origins

    @property
    def shown(self) -> list[Setting]:
        """Return every value with its origin; a secret is shown as "set" or "not set"."""
        return [self._shown(name, getattr(self, name), self.origins.get(name, DEFAULT)) for name in FIELDS]

    def _shown(self, name: str, value: object, origin: str) -> Setting:
        if name == _SECRET:
            variable = self.model_api_key_env or KEYS.get((self.model or "").partition(":")[0], "")
            if not value and os.environ.get(variable):
                value, origin = True, variable
            value = "set" if value else "not set"
        if name == _RUNS and isinstance(value, list):
            from ledger.domain.scan import secrets  # slow to load

            value = [secrets.redacted(part, secrets.scan(part)) for part in value]
        if name in ("log_url", "log_listen_url") and isinstance(value, str):
            value = _PASSWORD.sub(lambda found: "…" if found[1] is None else f"{found[1]}:…@", value)
        if name == "model_base_url" and not value:
            variable = SERVERS.get((self.model or "").partition(":")[0], "")
            if os.environ.get(variable):
                value, origin = os.environ[variable], variable
        return Setting(name=name, value=value, origin=origin)

    def __repr__(self) -> str:
        text = ", ".join(f"{setting.name}={setting.value!r}" for setting in self.shown if setting.origin != DEFAULT)
        return f"Settings({text})"

    def of_requests(self) -> dict[str, object]:
        """Return the settings that replace values of a request to the model."""
        values = {
            "max_tokens": self.model_max_tokens,
            "temperature": self.model_temperature,
            "timeout": self.model_timeout,
        }
        return {name: value for name, value in values.items() if value is not None}


FIELDS = tuple(name for name in Settings.__struct_fields__ if name != "origins")
_DEFAULTS = {field.name: field.default for field in msgspec.structs.fields(Settings)}


def _checked(chosen: Mapping[str, tuple[object, str]]) -> dict[str, Any]:
    values = {name: value for name, (value, _) in chosen.items()}
    if not all(name in _TEXTS and isinstance(value, str) for name, value in values.items()):
        values = _by_pydantic(values, {name: origin for name, (_, origin) in chosen.items()})
    for name in values.keys() & set(_TEXTS):
        if values[name] is not None:
            check_text(f"{chosen[name][1]}: {name}", values[name], max_bytes=4096, blank_allowed=True)
    return values


_URL = re.compile(r"https?://[^\s/?#@]+(/[^\s?#]*)?")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}")


def _is_url(value: str | None) -> str | None:
    if value is not None and not _URL.fullmatch(value):
        raise ValueError("it has to be the http or https address of a server, without a user, a key or a query")
    return value


def _is_variable(value: str | None) -> str | None:
    if value is not None and not _VARIABLE.fullmatch(value):
        raise ValueError("it has to be the name of an environment variable that holds the key")
    return value


def _is_command(value: list[str] | None) -> list[str] | None:
    if value is not None and (problem := problem_of_command(value)):
        raise ValueError(problem)
    return value


@cache
def _model() -> type[BaseModel]:
    """Return the pydantic model of the settings. pydantic is loaded only for values that are more than plain texts."""
    from pydantic import AfterValidator, ConfigDict, Field, create_model

    bounded: dict[str, Any] = {
        "model_base_url": Annotated[str | None, AfterValidator(_is_url)],
        "model_api_key_env": Annotated[str | None, AfterValidator(_is_variable)],
        "model_max_tokens": Annotated[int | None, Field(ge=1, le=1_000_000)],
        "model_temperature": Annotated[float | None, Field(ge=0, le=2, allow_inf_nan=False)],
        "model_command": Annotated[list[str] | None, AfterValidator(_is_command)],
        "model_command_calls": Annotated[int, Field(ge=1, le=1_000_000)],
        "model_command_tokens": Annotated[int, Field(ge=1, le=10**12)],
        "wal_mib": Annotated[int, Field(ge=4, le=65_536)],
        "learn_turns": Annotated[int, Field(ge=0, le=100_000)],
        "learn_tokens_a_day": Annotated[int, Field(ge=0, le=100_000_000)],
        "log_timeout": Annotated[float | None, Field(gt=0, le=86_400, allow_inf_nan=False)],
        "model_timeout": Annotated[float | None, Field(gt=0, le=86_400, allow_inf_nan=False)],
    }
    fields = {field.name: field for field in msgspec.structs.fields(Settings) if field.name != "origins"}
    types: dict[str, Any] = {name: (bounded.get(name, field.type), field.default) for name, field in fields.items()}
    return create_model("Settings", __config__=ConfigDict(protected_namespaces=()), **types)


def _by_pydantic(values: Mapping[str, object], origins: Mapping[str, str]) -> dict[str, Any]:
    """Return the values with their types; raise ``RejectedError`` with the origin of the first value that does not fit."""
    from pydantic import ValidationError

    try:
        return _model()(**values).model_dump(include=set(values))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    name = str(first["loc"][0])
    origin, shown = origins[name], f", and {values[name]!r:.60} is not"
    if name in ("model_api_key", "model_api_key_env", "model_base_url"):
        shown = ""  # the value may be a key, put here by mistake
    where = origin if origin.startswith(("LEDGER_", "MEMORY_LEDGER_")) else f"{origin}: {name}"
    message = first["msg"].removeprefix("Value error, ").replace("Input should be", "it has to be")
    raise RejectedError(f"{where}: {message}{shown}", rule="settings")


# --- the origins of values -------------------------------------------------------------------------------------------


def _of_environment(environment: Mapping[str, str]) -> list[tuple[str, Any, str]]:
    """Return (name, value, variable); only LEDGER_MODEL_ names are checked, as other programs use LEDGER_ names too."""
    for variable in sorted(environment):
        if variable.startswith(PREFIX + "MODEL_"):
            _check_known(variable.removeprefix(PREFIX).lower(), variable, variable, PREFIX)
    chosen = []
    for name in FIELDS:
        variable = PREFIX + name.upper()
        if variable in environment and (name != "path" or environment[variable]):
            chosen.append((name, _given(name, environment[variable], variable), variable))
    return chosen


def _given(name: str, text: str, variable: str) -> Any:
    """Return None for an empty variable of a setting that may be None, the list of a command, and else the text."""
    if text == "" and _DEFAULTS[name] is None:
        return None
    if name != _RUNS:
        return text
    try:
        command = json.loads(text)
    except (ValueError, RecursionError):
        command = None
    if not isinstance(command, list):
        raise RejectedError(
            f'{variable}: it has to be a JSON list of texts, such as ["claude", "-p", "--model", "haiku"]',
            rule="settings",
        )
    return command


def _of_file(path: tuple[object, str] | None) -> list[tuple[str, Any, str]]:
    named = os.environ.get(CONFIG)
    if named:
        place = named
    elif path is None or not isinstance(path[0], str) or not path[0] or "\0" in path[0]:
        return []  # the default ledger is in the working directory
    else:
        place = os.path.join(os.path.dirname(os.path.abspath(path[0])), FILE)
    place = os.path.abspath(place)
    data = _read(place)
    if data is None:
        if named:
            raise NotFoundError(f"{CONFIG}: there is no file {place}")
        return []
    try:
        values = tomllib.loads(data.decode("utf-8"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
        where = str(error) if isinstance(error, tomllib.TOMLDecodeError) else type(error).__name__
        raise RejectedError(f"{place}: the file is not valid TOML ({where:.100})", rule="settings") from None
    if isinstance(table := values.get(_TABLE), dict):
        del values[_TABLE]
        values |= {f"{_TABLE}_{name}": value for name, value in table.items()}
    for name in values:
        _check_known(name, place, name)
        if name.startswith(_RUNS) and not named and not _is_own(place):
            raise RejectedError(
                f"{place}: {name}: a file next to a ledger names no program to run, for a folder that others made would run"
                f" theirs; set {PREFIX}{name.upper()}, or write it into the file that {CONFIG} names or into"
                f" {OWN_FOLDER}/{FILE}",
                rule="settings",
            )
    if "path" in values and not named:
        raise RejectedError(f"{place}: path: the file next to a ledger cannot name another ledger", rule="settings")
    if isinstance(values.get("path"), str):
        values["path"] = os.path.join(os.path.dirname(place), values["path"])
    return [(name, value, place) for name, value in values.items()]


def _is_own(place: str) -> bool:
    """Return True for the ``ledger.toml`` in the user's own folder."""
    return os.path.realpath(os.path.dirname(place)) == os.path.realpath(os.path.expanduser(OWN_FOLDER))


def _read(place: str) -> bytes | None:
    """Return the bytes of a file that no other user may write; None if there is no file."""
    try:
        descriptor = os.open(place, platform.READ_FLAGS)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise RejectedError(f"{place}: the file cannot be read ({error.strerror})", rule="settings") from None
    try:
        status = os.fstat(descriptor)
        _check_ours(place, status)
        content = os.read(descriptor, FILE_BYTES + 1)
    finally:
        os.close(descriptor)
    if len(content) > FILE_BYTES:
        raise RejectedError(
            f"{place}: a file of settings has at most {FILE_BYTES:,} bytes", rule="settings", limit=FILE_BYTES
        )
    if (
        b"model_api_key " in content
        or b"model_api_key=" in content
        or _PASSWORD.search(content.decode("utf-8", "replace"))
    ):
        _check_unread(place, status.st_mode)
    return content


def _check_ours(place: str, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise RejectedError(f"{place}: settings are read from a regular file only", rule="settings")
    if not platform.HAS_MODES:
        return
    if any(each.st_uid and platform.is_of_another_user(each) for each in (status, os.lstat(place))):
        raise RejectedError(f"{place}: the file belongs to another user, whose settings are not used", rule="settings")
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        message = f"{place}: other users can write the file and so name a server to send memories to: chmod 600 it"
        raise RejectedError(message, rule="settings")


def _check_unread(place: str, mode: int) -> None:
    if platform.HAS_MODES and mode & (stat.S_IRGRP | stat.S_IROTH):
        raise RejectedError(
            f"{place}: the file holds a key or a password, and other users can read it: chmod 600 it", rule="settings"
        )


def _check_known(name: str, origin: str, setting: str, prefix: str = "") -> None:
    if name in FIELDS:
        return
    near = difflib.get_close_matches(name, FIELDS, 1, 0.5)
    spelled = [prefix + match.upper() if prefix else match for match in near]
    hint = f"; did you mean {spelled[0]}?" if spelled else f"; the settings are: {', '.join(FIELDS)}"
    where = "" if origin == setting else f"{origin}: "
    raise RejectedError(f"{where}there is no setting {setting!r:.60}{hint}", rule="settings")
