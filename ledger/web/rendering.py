"""The templates of the page: every text goes through them, and none of it is ever HTML."""

from __future__ import annotations

import base64
import difflib
import hashlib
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from ledger import RejectedError
from ledger.domain.text import UNSAFE, escape

HERE = Path(__file__).parent
TEXT_CHARS = 2_000  # of a text on a page; its plain form has the rest
DIFF_WORDS = 400  # of each of two wordings that are compared word by word
STYLE, SCRIPT = ((HERE / name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>()#+!|~&@])")


def _hash(text: str) -> str:
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


POLICY = (
    f"default-src 'none'; style-src {_hash(STYLE)}; script-src {_hash(SCRIPT)}; connect-src 'self'; img-src 'self';"
    " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)


def visible(text: object) -> str:
    """Return a text in which every character that hides or moves others is spelled out."""
    return "(erased)" if text is None else UNSAFE.sub(escape, str(text).replace("\r\n", "\n"))


def edited(shown_before: str, submitted: str) -> str:
    r"""Return an edited text with the stored characters in place of their spelling on the page.

    The beginning and the end that are as the page showed them come back exactly. Between them a spelling like ``\u200b`` stands
    for the character that the stored text has there.

    Args:
        shown_before: The stored text, which the page spelled out.
        submitted: The text of the form.

    Raises:
        RejectedError: The changed part of the stored text has a character and also its spelling.
    """
    signs, given = _signs(shown_before), submitted.replace("\r\n", "\n")
    spelled = [shown for shown, _ in signs]
    if given == "".join(spelled):
        return shown_before
    first = _untouched(spelled, given)
    given = given[sum(map(len, spelled[:first])) :]
    last = _untouched([shown[::-1] for shown in reversed(spelled[first:])], given[::-1])
    middle = signs[first : len(signs) - last]
    given = given[: len(given) - sum(map(len, spelled[len(signs) - last :]))]
    plain = "".join(sign for shown, sign in middle if shown == sign)
    for shown, sign in {(shown, sign) for shown, sign in middle if shown != sign and sign != "\r\n"}:
        if shown in plain:
            raise RejectedError(
                f"the text has the character {shown} and, where it was changed, its spelling too, so nobody can tell them apart:"
                " `memory-ledger revise` takes the text as it is"
            )
        given = given.replace(shown, sign)
    texts = ("".join(sign for _, sign in signs[:first]), given, "".join(sign for _, sign in signs[len(signs) - last :]))
    return "".join(texts)


def _signs(text: str) -> list[tuple[str, str]]:
    """Return the characters of a text, each as the page shows it and as it is."""
    return [(visible(sign), sign) for sign in re.findall(r"\r\n|.", text, re.DOTALL)]


def _untouched(spelled: Sequence[str], given: str) -> int:
    """Return how many signs a text begins with."""
    place = 0
    for number, shown in enumerate(spelled):
        if not given.startswith(shown, place):
            return number
        place += len(shown)
    return len(spelled)


def markdown(text: object, chars: int = TEXT_CHARS) -> str:
    """Return a text as one line of Markdown that is no more than text; a long one ends with "…"."""
    line = " ".join(visible(text).split())
    return _SPECIAL.sub(r"\\\1", line if len(line) <= chars else line[: chars - 1] + "…")


def when(time: str | None) -> str:
    """Return a time to the minute, in UTC."""
    return f"{datetime.fromisoformat(time).astimezone(UTC):%Y-%m-%d %H:%M}" if time else "never"


def changed_words(before: str | None, after: str | None) -> list[tuple[str, str]]:
    """Return the words of two wordings as (kind, words); the kind is "same", "del" or "ins"."""
    old, new = (re.findall(r"\S+\s*", visible(text)) for text in (before, after))
    if max(len(old), len(new)) > DIFF_WORDS:
        return [("del", visible(before)), ("ins", visible(after))]
    parts = list[tuple[str, str]]()
    for kind, i, j, k, m in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind == "equal":
            parts.append(("same", "".join(old[i:j])))
        else:
            parts += [(name, "".join(words)) for name, words in (("del", old[i:j]), ("ins", new[k:m])) if words]
    return parts


def marked(text: str | None, start: int, end: int) -> tuple[str, str, str]:
    """Return a text before, inside and after a span; what is far from the span is left out."""
    whole = text or ""
    before, after = whole[:start], whole[end:]
    if len(before) > TEXT_CHARS // 2:
        before = "… " + before[-TEXT_CHARS // 2 :]
    if len(after) > TEXT_CHARS // 2:
        after = after[: TEXT_CHARS // 2] + " …"
    return before, whole[start:end], after


def environment() -> Environment:
    """Return the templates with their filters; every value is escaped, and a missing one is an error."""
    templates = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    templates.filters |= {"visible": visible, "when": when, "thousands": "{:,}".format, "decimal": "{:g}".format}
    templates.filters["signed"] = "{:+.6g}".format
    templates.globals |= {"style": Markup(STYLE), "script": Markup(SCRIPT), "most": TEXT_CHARS}
    templates.globals |= {
        "changed_words": changed_words,
        "marked": marked,
        "picture": Markup,
    }  # of ledger.history.pictures
    return templates
