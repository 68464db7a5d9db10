"""The calls of ``AsyncLedger`` are those of ``Ledger``, with the same parameters."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator

import pytest

from ledger import Ledger, PastLedger
from ledger.aio import AsyncLedger, AsyncPastLedger
from tools.pages import async_classes, reference

CLASSES = async_classes.plain_classes()
FILE_OF = {module: file for file, (modules, _) in async_classes.FILES.items() for module in modules}
ALWAYS = {"close": "aclose"}  # calls with a name of their own


def pairs() -> Iterator[tuple[str, type, type]]:
    """Each plain class with its counterpart."""
    for name, plain in CLASSES.items():
        made = importlib.import_module(f"ledger.aio.{FILE_OF[plain.module]}")
        yield name, getattr(importlib.import_module(plain.module), name), getattr(made, f"Async{name}")


@pytest.mark.parametrize("file", async_classes.FILES)
def test_the_generated_file_is_current(file):
    """``python tools/pages/async_classes.py`` writes it."""
    assert (async_classes.AIO / f"{file}.py").read_text(encoding="utf-8") == async_classes.source(file)


def test_every_class_of_the_public_surface_has_a_counterpart():
    areas = {area.__name__ for area in reference.surface().values()}
    assert areas - CLASSES.keys() == set()
    assert {"PastLedger", "SessionRead", "MemoriesRead"} <= CLASSES.keys()


@pytest.mark.parametrize(("name", "plain", "made"), [*pairs()], ids=[*CLASSES])
def test_every_public_name_has_a_counterpart_with_the_same_parameters(name, plain, made):
    for member in (each for each in dir(plain) if not each.startswith("_")):
        counterpart = inspect.getattr_static(made, ALWAYS.get(member, member))
        raw = inspect.getattr_static(plain, member)
        if isinstance(raw, property) or member in ("batch", "close"):
            continue
        if isinstance(raw, classmethod | staticmethod):
            raw = raw.__func__
        if isinstance(counterpart, classmethod):
            counterpart = counterpart.__func__
        theirs = [each for each in inspect.signature(raw).parameters.values() if each.name not in ("self", "cls")]
        ours = [each for each in inspect.signature(counterpart).parameters.values() if each.name not in ("self", "cls")]
        theirs = [each for each in theirs if each.name != "group_commit"]
        assert [(each.name, each.kind, each.default) for each in ours] == [
            (each.name, each.kind, each.default) for each in theirs
        ], member


def test_the_past_offers_reads_alone():
    assert not hasattr(AsyncPastLedger, "remember") and hasattr(AsyncLedger, "remember")
    assert {each for each in dir(PastLedger) if each[0] != "_"} == {
        each for each in dir(AsyncPastLedger) if each[0] != "_"
    }


def test_the_ledger_has_two_names_more_and_one_other():
    ours, theirs = ({each for each in dir(kind) if each[0] != "_"} for kind in (AsyncLedger, Ledger))
    assert (ours - theirs, theirs - ours) == ({"aclose", "in_batch"}, {"close"})
