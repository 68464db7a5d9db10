"""Settings: what an argument, the environment and a ``ledger.toml`` say, in this order, each value with where it comes from.

A ``ledger.toml`` is looked for next to the ledger that somebody named, or where LEDGER_CONFIG says; never in the working
directory just so. Whoever steps into a foreign folder would otherwise run with the settings of whoever made it, and these can
name a server that memories are sent to, and a variable whose value goes there as the key.
"""

from __future__ import annotations

import difflib
import os
import stat
import tomllib
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from ledger.domain.errors import NotFoundError, RejectedError
from ledger.domain.text import check_text
from ledger.store.paths import path_name

PREFIX, CONFIG, FILE = "LEDGER_", "LEDGER_CONFIG", "ledger.toml"
ARGUMENT, DEFAULT = "argument", "default"
FILE_BYTES = 64 * 1024
# any text will do, so nothing has to be loaded to check it
_TEXTS = ("path", "user", "actor", "client", "agent", "project")
_SECRET = "model_api_key"
# where a provider's key is, unless told otherwise
KEYS = {"openai": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY"}
# ... and its server, as its own client looks it up
SERVERS = {"openai": "OPENAI_BASE_URL", "anthropic": "ANTHROPIC_BASE_URL"}


class Setting(Struct, frozen=True, kw_only=True):
    """One value and its origin: "argument", the name of a variable, the path of a file, or "default"."""

    name: str
    value: object
    origin: str


class Settings(Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    """What a ledger is opened with. ``model`` is a name ("openai:NAME", "anthropic:NAME", "local:NAME"); what belongs to it
    stands in for what a request asks for, tokens and seconds. ``summaries``: the model writes the summaries of sessions.
    ``project`` is where the command line puts what names none. Above ``wal_mib`` MiB of a -wal writers wait a moment for readers.
    """

    path: str = "memory.db"
    user: str = ""
    actor: str = ""
    client: str = ""
    agent: str = ""
    project: str | None = None
    embedder: str | None = None
    model: str | None = None
    model_base_url: str | None = None
    model_api_key: str | None = None
    model_api_key_env: str | None = None
    model_max_tokens: int | None = None
    model_temperature: float | None = None
    model_timeout: float | None = None
    summaries: bool = True
    wal_mib: int = 64
    origins: dict[str, str] = {}

    @classmethod
    def load(cls, path: str | os.PathLike[str] | None = None, **arguments: object) -> Settings:
        """What is in effect for a ledger: an argument that is not None, or else ``LEDGER_*`` of the environment, or else the
        ``ledger.toml``, or else the default.

        ``RejectedError``, with the origin, for a value that is none, for a name that there is not, and for a file that others may
        write to; ``NotFoundError`` where LEDGER_CONFIG names no file.
        """
        given = {"path": path_name(path) if path is not None else None, **arguments}
        for name in given:
            _check_known(name, ARGUMENT, name)
        found = {name: (value, ARGUMENT) for name, value in given.items() if value is not None}
        for name, value, origin in _of_environment(os.environ):
            found.setdefault(name, (value, origin))
        for name, value, origin in _of_file(found.get("path")):
            found.setdefault(name, (value, origin))
        return cls(**_checked(found), origins={name: origin for name, (_, origin) in found.items()})

    @property
    def names_user(self) -> bool:
        """Return True where an argument, a variable or the file says whose memory it is, also the user ""."""
        return self.user != "" or "user" in self.origins

    @property
    def shown(self) -> list[Setting]:
        """Every value with its origin; of a secret only whether it is set."""
        return [self._shown(name, getattr(self, name), self.origins.get(name, DEFAULT)) for name in FIELDS]

    def _shown(self, name: str, value: object, origin: str) -> Setting:
        if name == _SECRET:
            variable = self.model_api_key_env or KEYS.get((self.model or "").partition(":")[0], "")
            if not value and os.environ.get(variable):
                value, origin = True, variable
            value = "set" if value else "not set"
        if name == "model_base_url" and not value:
            variable = SERVERS.get((self.model or "").partition(":")[0], "")
            if os.environ.get(variable):
                value, origin = os.environ[variable], variable
        return Setting(name=name, value=value, origin=origin)

    def __repr__(self) -> str:
        text = ", ".join(f"{each.name}={each.value!r}" for each in self.shown if each.origin != DEFAULT)
        return f"Settings({text})"

    def of_requests(self) -> dict[str, object]:
        """What stands in for what a request to the model asks for."""
        values = {
            "max_tokens": self.model_max_tokens,
            "temperature": self.model_temperature,
            "timeout": self.model_timeout,
        }
        return {name: value for name, value in values.items() if value is not None}


FIELDS = tuple(name for name in Settings.__struct_fields__ if name != "origins")
_DEFAULTS = {each.name: each.default for each in msgspec.structs.fields(Settings)}


def _checked(found: Mapping[str, tuple[object, str]]) -> dict[str, Any]:
    values = {name: value for name, (value, _) in found.items()}
    if not all(name in _TEXTS and isinstance(value, str) for name, value in values.items()):
        from ledger.engine.given_settings import check_settings

        values = check_settings(Settings, values, {name: origin for name, (_, origin) in found.items()})
    for name in values.keys() & set(_TEXTS):
        if values[name] is not None:
            check_text(f"{found[name][1]}: {name}", values[name], max_bytes=4096, blank_allowed=True)
    return values


# --- where values come from ------------------------------------------------------------------------------------------


def _of_environment(environment: Mapping[str, str]) -> list[tuple[str, Any, str]]:
    """(name, value, variable). Other programs have LEDGER_ variables too, so only those of the model have to be known."""
    for variable in sorted(environment):
        if variable.startswith(PREFIX + "MODEL_"):
            _check_known(variable.removeprefix(PREFIX).lower(), variable, variable, PREFIX)
    found = []
    for name in FIELDS:
        variable = PREFIX + name.upper()
        if variable in environment and (name != "path" or environment[variable]):
            found.append((name, _given(name, environment[variable]), variable))
    return found


def _given(name: str, text: str) -> Any:
    """An empty variable is an empty text where a text may be empty, and unsets what may be unset."""
    return None if text == "" and _DEFAULTS[name] is None else text


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
        raise RejectedError(f"{place}: it is no TOML ({where:.100})", rule="settings") from None
    for name in values:
        _check_known(name, place, name)
    if "path" in values and not named:
        raise RejectedError(f"{place}: path: the file next to a ledger cannot name another ledger", rule="settings")
    if isinstance(values.get("path"), str):
        values["path"] = os.path.join(os.path.dirname(place), values["path"])
    return [(name, value, place) for name, value in values.items()]


def _read(place: str) -> bytes | None:
    """The bytes of a file that nobody else may write; None where there is none."""
    try:
        descriptor = os.open(place, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise RejectedError(f"{place}: it cannot be read ({error.strerror})", rule="settings") from None
    try:
        found = os.fstat(descriptor)
        _check_ours(place, found)
        data = os.read(descriptor, FILE_BYTES + 1)
    finally:
        os.close(descriptor)
    if len(data) > FILE_BYTES:
        raise RejectedError(f"{place}: settings take at most {FILE_BYTES:,} bytes", rule="settings", limit=FILE_BYTES)
    if b"model_api_key " in data or b"model_api_key=" in data:
        _check_unread(place, found.st_mode)
    return data


def _check_ours(place: str, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise RejectedError(f"{place}: it is no regular file", rule="settings")
    owners, link = (os.geteuid(), 0), os.lstat(place)
    if found.st_uid not in owners or link.st_uid not in owners:
        raise RejectedError(f"{place}: it belongs to another user, whose settings are not taken", rule="settings")
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        message = f"{place}: it can be written by others, who could name a server to send memories to: chmod 600 it"
        raise RejectedError(message, rule="settings")


def _check_unread(place: str, mode: int) -> None:
    if mode & (stat.S_IRGRP | stat.S_IROTH):
        raise RejectedError(f"{place}: it holds a key, and can be read by others: chmod 600 it", rule="settings")


def _check_known(name: str, origin: str, setting: str, prefix: str = "") -> None:
    if name in FIELDS:
        return
    near = difflib.get_close_matches(name, FIELDS, 1, 0.5)
    spelled = [prefix + each.upper() if prefix else each for each in near]
    hint = f"; did you mean {spelled[0]}?" if spelled else f"; there are: {', '.join(FIELDS)}"
    where = "" if origin == setting else f"{origin}: "
    raise RejectedError(f"{where}no setting is called {setting!r:.60}{hint}", rule="settings")
