"""The translation of the library's messages for users of a shell.

``history.audit(subject=…)`` becomes ``memory-ledger history audit --subject …``, with the options of the present command that
name its ledger and its user.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextvars import ContextVar

from ledger.cli.methods import AREAS, NO_COMMANDS, OF_A_SESSION, PANELS
from ledger.core.shell import PROGRAM, command, with_options

_QUOTED = re.compile(r"('[^']*'|\"[^\"]*\")")  # a quoted value of the caller is not translated
_WORD = re.compile(r"(\b[a-z]+\.[a-z_]+\([a-z_]+=)\"(\w+)\"\)")  # a call with a quoted word: policy.set(secrets="off")
_TAGGED = {"Project": "--project", "SessionName": "--session", "DocumentPath": "--document"}
_TAG = re.compile(rf"\b({'|'.join(_TAGGED)})\((\w+)\)")
_CALL = re.compile(r"\b(?:Ledger\.)?(?:(\w+)\.)?(\w+)\(([^()]*)\)")
_KEYWORD = re.compile(r"(?<![\w.])([a-z_]+)=(\[…\]|\w+|…)?")
_NAMED = re.compile(r"[a-z]{2,}(?:_[a-z]+)*")  # the name of an argument, which stands for its value
_SETTING = re.compile(r"open the ledger with (\w+)=…?")
_VERBS = {verb.replace("-", "_") for panel in PANELS.values() for verb in panel} - NO_COMMANDS


given_options: ContextVar[Mapping[str, str]] = ContextVar("given_options")  # --db and --user of the present command


def next_command(words: str) -> str:
    """Return a command to run next, on the ledger and for the user that the present command named."""
    return command(words, given_options.get({}))


def with_given_options(message: str) -> str:
    """Return a message whose commands to run next name the ledger and the user that the present command named."""
    return with_options(message, given_options.get({}))


def in_shell(message: str) -> str:
    """Return a message with its calls as commands and its keywords as options; quoted texts stay unchanged."""
    parts = _QUOTED.split(_WORD.sub(r"\1\2)", message))
    return with_given_options("".join(part if number % 2 else _translated(part) for number, part in enumerate(parts)))


def _translated(text: str) -> str:
    text = _TAG.sub(lambda match: f"{_TAGGED[match[1]]} {match[2].upper()}", text)
    text = re.sub(r"\bEvent\(position\)", "a position", text).replace("EVERYTHING", "--everything")
    text = _SETTING.sub(lambda match: f"set LEDGER_{match[1].upper()}", text)
    text = _CALL.sub(_command, text).replace("dry_run", "--dry-run").replace("page.all()", "--all")
    return _KEYWORD.sub(_option, text)


def _command(match: re.Match[str]) -> str:
    area, verb, arguments = match.groups()
    if (area not in AREAS) if area else (verb not in _VERBS):
        return match[0]
    words = [*([area] if area else []), *(["NAME"] if area in OF_A_SESSION else []), verb.replace("_", "-")]
    given = [word.upper() if _NAMED.fullmatch(word) else word for word in arguments.split(", ")]
    return f"`{' '.join([PROGRAM, *words, *given]).strip()}`"


def _option(match: re.Match[str]) -> str:
    name, value = match.groups()
    value = "" if value in (None, "True") else f" {value.strip('[]')}"
    return f"--{name.replace('_', '-')}{value}"
