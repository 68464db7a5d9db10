"""The commands ``values …``, as far as signatures are not enough: namespaces as paths, and JSON as a value."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, cast

from ledger.cli.calling import STDIN, ShellCall, exact_stdin, invoke, opened
from ledger.cli.output import Usage
from ledger.cli.views import Exact
from ledger.types import Json

if TYPE_CHECKING:
    from cyclopts import Token

    from ledger.values.answers import Value

NAMESPACES = ("namespace", "to_namespace", "prefix")
HELPS = {
    **dict.fromkeys(NAMESPACES, " Here a path, ada/notes, or a JSON list; / for the root."),
    "where": ' As a JSON object: \'{"score": {"$gte": 5}}\'.',
}


def labels(kind: object, tokens: Sequence[Token]) -> tuple[str, ...]:
    """Return the labels of a namespace from a path such as ``ada/notes``, or from a JSON list."""
    text = tokens[0].value
    if not text.startswith("["):
        return tuple(label for label in text.split("/") if label)
    try:
        return tuple(json.loads(text))
    except (ValueError, RecursionError):
        raise ValueError(f"{text!r:.60} is not JSON") from None


def put_value(call: ShellCall, value: str, *, type: Literal["text", "json"] = "text") -> object:
    """Put a text, or with --type json a value of JSON.

    Args:
        value: A text, or JSON with --type json; "-" for standard input, which is kept with its last line ending.
        type: "json" if the value is JSON.
    """
    content: Json = exact_stdin() if value == STDIN else value
    if type == "json":
        try:
            content = json.loads(str(content).removeprefix("\ufeff"))
        except (ValueError, RecursionError):
            raise Usage("the value is not JSON; without --type json it is a text") from None
    with opened(call) as ledger:
        return ledger.values.put(**{**call.arguments, "value": content})


def get_value(call: ShellCall, *, raw: bool = False) -> object:
    """Get a value, with ``raw`` as its plain text.

    Args:
        raw: Print only the text or the JSON, without an added line ending.
    """
    with opened(call) as ledger:
        value = cast("Value", invoke(call, ledger, call.arguments))
    if not raw:
        return value
    if call.options["json"]:
        return value.value
    return Exact(value.value if isinstance(value.value, str) else json.dumps(value.value, ensure_ascii=False))
