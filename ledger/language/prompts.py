"""Prompts are files with versions: ``extract/1`` is ``prompts/extract_1.txt``, and a released one never changes."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from string import Template

_VERSION = re.compile(r"[a-z][a-z_]{0,40}/[1-9][0-9]{0,3}")


@cache
def prompt(version: str) -> Template:
    """The prompt of a version; what is to be put into it stands there as ``$name``."""
    if not _VERSION.fullmatch(version):
        raise ValueError(f"no version of a prompt: {version!r}")
    name = version.replace("/", "_") + ".txt"
    return Template((files("ledger") / "prompts" / name).read_text(encoding="utf-8"))


@cache
def prompt_parts(version: str) -> tuple[Template, Template]:
    """A prompt in two: our own words, and from the place of what came before on what others wrote."""
    instructions, there, rest = prompt(version).template.partition("$previous")
    return Template(instructions.strip()), Template(there + rest)
