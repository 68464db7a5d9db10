"""The prompts, kept in files with versions.

The version ``extract/1`` is the file ``prompts/extract_1.txt``. A released version never changes.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from string import Template

_VERSION = re.compile(r"[a-z][a-z_]{0,40}/[1-9][0-9]{0,3}")


@cache
def prompt(version: str) -> Template:
    """Return the prompt of a version as a template, with ``$name`` for each value to fill in."""
    if not _VERSION.fullmatch(version):
        raise ValueError(f"a version of a prompt looks like 'extract/1', not {version!r}")
    name = version.replace("/", "_") + ".txt"
    return Template((files("ledger") / "prompts" / name).read_text(encoding="utf-8"))


@cache
def prompt_parts(version: str) -> tuple[Template, Template]:
    """Return a prompt in two parts: the instructions, and the part with texts by others.

    The second part begins at ``$previous``.
    """
    instructions, marker, rest = prompt(version).template.partition("$previous")
    return Template(instructions.strip()), Template(marker + rest)
