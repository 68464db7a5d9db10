"""Commands of a shell in messages to a person, with the options that name the same ledger and the same user."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping, Sequence

PROGRAM = "memory-ledger"
_COMMAND = re.compile(rf"`{PROGRAM} ([^`]+)`")


def shell_options(db: str | os.PathLike[str] | None, user: str | None) -> dict[str, str]:
    """Return the options of a command that name a ledger and a user; None stands for the default, which needs no option."""
    return {name: str(value) for name, value in (("--db", db), ("--user", user)) if value is not None}


def command(words: str, options: Mapping[str, str]) -> str:
    """Return a command of this program with the options, quoted for the shell; an option that the words have is not added."""
    own = words.split()
    missing = [word for name, value in options.items() if name not in own for word in (name, value)]
    return " ".join((PROGRAM, words, quoted(missing))).rstrip()


def with_options(message: str, options: Mapping[str, str]) -> str:
    """Return a message whose commands of this program, each between backticks, have the options."""
    return _COMMAND.sub(lambda match: f"`{command(match[1], options)}`", message)


def quoted(words: Sequence[str]) -> str:
    """Return words as a shell reads them; on Windows as cmd.exe, PowerShell and Git Bash read them."""
    from ledger.log import platform  # which loads what a help page does not need

    if platform.HAS_POSIX_SHELL:
        return shlex.join(words)
    plain = [word.replace("\\", "/") for word in words]  # which names the same file, and is no escape of Bash
    return " ".join(word if re.fullmatch(r"[\w:./@+-]+", word) else f'"{word}"' for word in plain)
