"""A search for regular expressions whose time grows faster than the text.

    python tools/crash/slow_patterns.py [--long] [--only NAME]

Every expression of ``ledger`` is collected: from the variables of modules, from calls of ``re``, and from
``domain/scan/patterns.json``. Hostile texts are made of each expression itself: a text that leads up to a repetition, the body of
the repetition many times, and an end that fails. An expression is slow if four times the text takes more than eight times the
processor time. ``--long`` measures every text up to 1 MiB. The exit code is 1 if an expression is slow.
"""

from __future__ import annotations

import argparse
import ast
import gc
import importlib
import pkgutil
import re
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

import ledger  # noqa: E402
from ledger.domain.late import _Late  # noqa: E402
from ledger.domain.scan.patterns import read  # noqa: E402

_parser: Any = importlib.import_module("re._parser")
SHORT, FIRST, LAST = 1024, 8 * 1024, 1024 * 1024  # characters of the shortest texts and of the longest
FACTOR = 8  # times the processor time that a text of four times the length may take
FLOOR_S = 0.02  # below this a time is noise
SHORT_S, FIRST_S = 0.02, 0.12  # more processor time for ``SHORT`` or ``FIRST`` characters is slow in any case
GROWN = 2  # so many of the slowest texts of an expression are measured at greater lengths
GIVE_UP_S = 2.0  # a call is broken off after this time, and longer texts are not tried
# A character of each kind, so that two classes that share a kind are given the same character.
POOL = "a A0 _-.'\n,:\\\"*1=([!/@#\u00e9\u4e2d\u2019\u200b%&\t|<xX9F\r{$+~;?\u0430\U000e0041\U000e0020\ufe00\u202e\u202d\u2066\u3002\u3001\u2014\u2013\u201c"
ENDS = ("\x00", "!x", "\n")


class Expression(NamedTuple):
    """A regular expression with its place and the methods by which it is used."""

    name: str
    pattern: re.Pattern[Any]
    uses: tuple[str, ...]


class Slow(NamedTuple):
    """An expression that took ``seconds`` for a text of ``chars`` characters, and ``factor`` times the time of a quarter."""

    name: str
    use: str
    text: str
    chars: int
    seconds: float
    factor: float


# --- the expressions -------------------------------------------------------------------------------------------------


def expressions() -> list[Expression]:
    """Return each expression of the package once."""
    by_key: dict[tuple[Any, int], Expression] = {}
    sources = {path: path.read_text(encoding="utf-8") for path in Path(ledger.__file__).parent.rglob("*.py")}
    called = {path: _uses(source) for path, source in sources.items()}
    for name, path, variable, pattern in (*_held(), *_written(sources), *_of_guards()):
        private = variable.startswith("_")  # only its own file uses it
        uses = {
            use for file, of_file in called.items() if file == path or not private for use in of_file.get(variable, ())
        }
        known = by_key.get((pattern.pattern, pattern.flags))
        every = {*(known.uses if known else ()), *(uses if variable and uses else EVERY)}
        every -= {"search"} if "finditer" in every else set()  # the first step of finditer is a search
        by_key[pattern.pattern, pattern.flags] = Expression(
            known.name if known else name, pattern, tuple(sorted(every))
        )
    return list(by_key.values())


EVERY = ("finditer",)  # the method that is measured if the file of an expression does not show its use


def _uses(source: str) -> dict[str, set[str]]:
    """Return the methods that are called on each variable of a file."""
    uses: dict[str, set[str]] = {}
    for variable, method in re.findall(
        r"\b(\w+)\.(search|match|fullmatch|finditer|findall|sub|subn|split(?=\(\w))\b", source
    ):
        uses.setdefault(variable, set()).add(method if method in ("search", "match", "fullmatch") else "finditer")
    for targets, names in re.findall(r"\bfor ([\w, ]+) in \(?([\w, ]+)\)?", source):  # several patterns in a variable
        of_targets = {use for target in targets.split(", ") for use in uses.get(target, ())}
        for name in names.split(", "):
            uses.setdefault(name, set()).update(of_targets)
    for name, method in re.findall(r"\b_?part\((?:\"\w+\", )?\"(\w+)\"\)\.(search|match|fullmatch|finditer)\b", source):
        uses.setdefault(f"part:{name}", set()).add(method)
    return uses | {f"re:{method}": {method} for method in ("match", "fullmatch", "search")}


def _held() -> Iterator[tuple[str, Path | None, str, re.Pattern[Any]]]:
    """Yield the expressions that modules hold in a variable, or in a tuple, list, object or method that a variable has."""
    for module in pkgutil.walk_packages(ledger.__path__, "ledger."):
        if module.name.endswith("__main__"):
            continue
        try:
            imported = importlib.import_module(module.name)
            values, path = dict(vars(imported)), Path(str(imported.__file__))
        except ImportError:  # needs a package that is not installed
            continue
        for variable, value in values.items():
            for pattern in _within(value, 4):
                yield f"{module.name}.{variable}", path, variable, pattern


def _within(value: object, depth: int) -> Iterator[re.Pattern[Any]]:
    if isinstance(value, _Late):
        yield value._compiled
    elif isinstance(value, re.Pattern):
        yield value
    elif isinstance(getattr(value, "__self__", None), re.Pattern):
        yield value.__self__  # type: ignore[attr-defined]
    elif depth and isinstance(value, tuple | list | set | frozenset):
        for part in value:
            yield from _within(part, depth - 1)
    elif depth and isinstance(value, dict):
        for part in (*value.keys(), *value.values()):
            yield from _within(part, depth - 1)


def _written(sources: dict[Path, str]) -> Iterator[tuple[str, Path | None, str, re.Pattern[Any]]]:
    """Yield the expressions that are written in a call, as in ``re.sub("[ -]", …)``."""
    for path, source in sources.items():
        for node in ast.walk(ast.parse(source)):
            if not isinstance(node, ast.Call) or not node.args or not isinstance(node.args[0], ast.Constant):
                continue
            called, expression = node.func, node.args[0].value
            is_of_re = isinstance(called, ast.Attribute) and ast.unparse(called.value) == "re"
            if is_of_re and isinstance(expression, str | bytes) and called.attr not in ("compile", "escape"):  # type: ignore[attr-defined]
                method = called.attr  # type: ignore[attr-defined]
                pattern: re.Pattern[Any] = re.compile(expression)
                yield f"{path.stem}:{node.lineno}", path, f"re:{method}", pattern


def _of_guards() -> Iterator[tuple[str, Path | None, str, re.Pattern[Any]]]:
    for scanner, patterns in read().items():
        for number, pattern in enumerate(patterns.patterns):
            yield f"{scanner} {number} {pattern.label}", None, "", pattern.compiled
        for name, expression in patterns.parts.items():
            yield f"{scanner} {name}", None, f"part:{name}", re.compile(expression)


# --- the texts -------------------------------------------------------------------------------------------------------


class _Writer:
    """A writer of texts that match a parsed expression; ``choice`` picks among characters and branches."""

    def __init__(self, choice: int, flags: int) -> None:
        self._choice, self._flags, self._groups = choice, flags, dict[int, str]()

    def text(self, items: Any) -> str:
        return "".join(self._item(str(operator), argument) for operator, argument in items)

    def _item(self, operator: str, argument: Any) -> str:
        match operator:
            case "LITERAL":
                return chr(argument)
            case "NOT_LITERAL":
                return self._one(lambda char: char != chr(argument))
            case "ANY":
                return self._one(lambda char: char != "\n")
            case "IN":
                return self._one(_of_class(argument)) or _a_literal(argument)
            case "BRANCH":
                branches = argument[1]
                return self.text(branches[self._choice % len(branches)])
            case "SUBPATTERN":
                number, _, _, items = argument
                text = self.text(items)
                self._groups[number] = text
                return text
            case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
                least, most, items = argument
                repeated: str = self.text(items) * min(max(least, 1), int(most), 64)
                return repeated
            case "ATOMIC_GROUP":
                return self.text(argument)
            case "GROUPREF":
                return self._groups.get(argument, "")
            case "GROUPREF_EXISTS":
                return self.text(argument[1] if self._groups.get(argument[0]) else argument[2] or ())
        return ""

    def _one(self, is_in: Callable[[str], bool]) -> str:
        chars = [char for char in POOL if is_in(char)]
        return chars[self._choice % len(chars)] if chars else ""


def _of_class(argument: Any) -> Callable[[str], bool]:
    source = "".join(_class_part(str(operator), value) for operator, value in argument)
    return lambda char: re.fullmatch(f"[{source}]", char) is not None


def _class_part(operator: str, value: Any) -> str:
    match operator:
        case "NEGATE":
            return "^"
        case "LITERAL":
            return re.escape(chr(value))
        case "RANGE":
            return f"{re.escape(chr(value[0]))}-{re.escape(chr(value[1]))}"
    names = {"DIGIT": r"\d", "NOT_DIGIT": r"\D", "SPACE": r"\s", "NOT_SPACE": r"\S", "WORD": r"\w", "NOT_WORD": r"\W"}
    return names[str(value).removeprefix("CATEGORY_")]


def _a_literal(argument: Any) -> str:
    """Return a character of a class if the pool has none of the class."""
    for operator, value in argument:
        if str(operator) in ("LITERAL", "RANGE"):
            return chr(value if str(operator) == "LITERAL" else value[0])
    return ""


def _repeats(items: Any, before: str, writer: _Writer) -> Iterator[tuple[str, str]]:
    """Yield (text that leads up to the repetition, body) for each repetition in a parsed expression."""
    for operator, argument in items:
        name = str(operator)
        if name.endswith("_REPEAT"):
            _least, most, body = argument
            if most == _parser.MAXREPEAT or most > 3:
                yield before, writer.text(body)
            yield from _repeats(body, before, writer)
        elif name == "BRANCH":
            for branch in argument[1]:
                yield from _repeats(branch, before, writer)
        elif name == "SUBPATTERN":
            yield from _repeats(argument[3], before, writer)
        elif name == "ATOMIC_GROUP":
            yield from _repeats(argument, before, writer)
        elif name in ("ASSERT", "ASSERT_NOT"):
            yield from _repeats(argument[1], before, writer)
        elif name == "GROUPREF_EXISTS":
            for part in argument[1:]:
                yield from _repeats(part or (), before, writer)
        before += writer._item(name, argument)


CHOICES = 4  # picks among characters and branches, for each of which there are texts of their own


def attacks(pattern: re.Pattern[Any], choices: int = CHOICES) -> list[tuple[str, str, str]]:
    """Return hostile texts of an expression as (beginning, repeated body, end)."""
    source = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
    parsed = _parser.parse(source, pattern.flags & ~re.UNICODE if isinstance(pattern.pattern, bytes) else pattern.flags)
    texts = dict[tuple[str, str, str], None]()
    for choice in range(choices):
        writer = _Writer(choice, pattern.flags)
        whole = writer.text(parsed)
        texts["", whole, ""] = None
        texts["", whole[:-1] or whole, ""] = None  # a near miss, again and again
        texts["", whole[1:] or whole, ""] = None
        for before, body in islice(_repeats(parsed, "", writer), 60):
            if not body:
                continue
            end = ENDS[choice % len(ENDS)]
            texts[before, body, end] = None
            texts["", body, end] = None
            texts["", before + body, end] = None
            texts["", before + body * 24 + end, ""] = None
            texts[before, body, whole[-1:]] = None
    return [text for text in texts if text[1]]


def text_of(attack: tuple[str, str, str], chars: int) -> str:
    beginning, body, end = attack
    return beginning + body * max(1, (chars - len(beginning) - len(end)) // len(body)) + end


# --- the time --------------------------------------------------------------------------------------------------------


class _TooLong(Exception):
    """A call took longer than ``GIVE_UP_S``."""


def _give_up(*_: object) -> None:
    raise _TooLong


def seconds(run: Callable[[Any], object], text: Any) -> float:
    """Return the processor time of one call, which is broken off after ``GIVE_UP_S``."""
    before = signal.signal(signal.SIGVTALRM, _give_up)
    start = time.process_time()
    try:
        signal.setitimer(signal.ITIMER_VIRTUAL, GIVE_UP_S)
        run(text)
    except _TooLong:
        return GIVE_UP_S
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
    return time.process_time() - start


def grows(
    run: Callable[[Any], object], make: Callable[[int], Any], last: int = LAST
) -> tuple[int, float, float] | None:
    """Return (characters, seconds, factor) if a call takes too long for its text; None if its time is linear."""
    chars, before = FIRST, seconds(run, make(FIRST))
    while chars < last:
        chars *= 4
        took = seconds(run, make(chars))
        if FLOOR_S < took < GIVE_UP_S and took > FACTOR * max(before, FLOOR_S):
            before, took = (min(seconds(run, make(size)) for _ in range(2)) for size in (chars // 4, chars))
        if took > FACTOR * max(before, FLOOR_S):
            return chars, took, took / max(before, 1e-9)
        if FACTOR * took > GIVE_UP_S:  # the next text would be broken off, whatever its factor
            return None
        before = took
    return None


def slow(expression: Expression, every: bool = False, last: int = LAST, choices: int = CHOICES) -> Iterator[Slow]:
    """Yield the slow text of each use of an expression that has one.

    All texts are measured at ``FIRST`` characters, at which quadratic time stands out. The slowest are measured at greater
    lengths too; with ``every`` all of them are.
    """
    is_bytes = isinstance(expression.pattern.pattern, bytes)
    for use in expression.uses:
        method = getattr(expression.pattern, use)
        run = (lambda text: deque(method(text), 0)) if use == "finditer" else method  # noqa: B023
        if (worst := _slowest(run, attacks(expression.pattern, choices), is_bytes, every, last)) is not None:
            yield Slow(expression.name, use, *worst)


def _slowest(
    run: Callable[[Any], object], texts: list[tuple[str, str, str]], is_bytes: bool, every: bool, last: int
) -> tuple[str, int, float, float] | None:
    timed = list[tuple[float, int, Callable[..., Any]]]()
    for number, attack in enumerate(texts):

        def make(chars: int, attack: tuple[str, str, str] = attack) -> str | bytes:
            text = text_of(attack, chars)
            return text.encode("utf-8", "replace") if is_bytes else text

        took = seconds(run, make(SHORT))
        if SHORT_S < took < GIVE_UP_S:  # the delay may have another cause, so measure again
            took = seconds(run, make(SHORT))
        if took > SHORT_S:
            return repr(attack)[:160], SHORT, took, 0.0
        took = seconds(run, make(FIRST))
        if FIRST_S < took < GIVE_UP_S:
            took = seconds(run, make(FIRST))
        if took > FIRST_S:
            return repr(attack)[:160], FIRST, took, 0.0
        timed.append((took, number, make))
    for _, number, make in sorted(timed, reverse=True)[: None if every else GROWN]:
        if (worst := grows(run, make, last)) is not None:
            return repr(texts[number])[:160], *worst
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    gc.disable()
    count, texts = 0, 0
    for expression in expressions():
        if not any(only in expression.name for only in options.only.split(",")):
            continue
        texts += len(attacks(expression.pattern)) * len(expression.uses)
        for worst in slow(expression, options.long):
            count += 1
            print(
                f"{worst.name} ({worst.use}): {worst.seconds:.2f} s at {worst.chars:,}, {worst.factor:.0f} times: {worst.text}",
                flush=True,
            )
    print(f"{count} slow of {len(expressions())} expressions, {texts:,} texts, {time.process_time():.0f} s")
    return int(count > 0)


if __name__ == "__main__":
    sys.exit(main())
