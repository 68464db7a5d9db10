"""The names by which tests of a library are left out."""

from __future__ import annotations


def is_named(nodeid: str, part: str) -> bool:
    """Return True if a test is meant: by its whole name, or by the beginning of its name if the part ends with "*".

    Args:
        nodeid: The name that pytest has for the test: its file, its class if it has one, and its function with parameters.
        part: The name without the file; the class and the parameters may be left out.
    """
    name = nodeid.partition("::")[2]
    plain = name.partition("[")[0]
    names = {name, plain, plain.rpartition("::")[2]}
    return any(known.startswith(part[:-1]) for known in names) if part.endswith("*") else part in names
