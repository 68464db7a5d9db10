"""The calls of ``AsyncLedger`` are those of ``Ledger``, with the same parameters."""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Iterator

import pytest

from ledger import Ledger, PastLedger
from ledger.aio import AsyncLedger, AsyncPastLedger, made
from tools.pages import async_classes, reference

CLASSES = async_classes.plain_classes()
ALWAYS = {"close": "aclose"}  # calls with a name of their own


def pairs() -> Iterator[tuple[str, type, type]]:
    """Each plain class with its counterpart."""
    home = importlib.import_module("ledger.aio.ledger")
    for name, plain in CLASSES.items():
        yield name, getattr(importlib.import_module(plain.module), name), getattr(home, f"Async{name}")


def test_the_file_of_types_is_current():
    """``python tools/pages/async_classes.py`` writes it."""
    assert async_classes.STUB.read_text(encoding="utf-8") == async_classes.source()


def test_the_types_name_the_classes_that_are_made_and_their_calls():
    stated = {node.name: node for node in ast.parse(async_classes.source()).body if isinstance(node, ast.ClassDef)}
    classes = {f"Async{name}": kind for name, kind in made.plain_classes().items()}
    assert stated.keys() == classes.keys() == made.counterparts().keys()
    for name, node in stated.items():
        calls = {each.name for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)}
        assert calls == {call for call, _ in made.public(classes[name])}, name
        for each in node.body:
            if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
                call = inspect.getattr_static(made.counterparts()[name], each.name)
                call = call.__func__ if isinstance(call, classmethod) else call
                assert isinstance(each, ast.AsyncFunctionDef) == inspect.iscoroutinefunction(call), (name, each.name)


def test_what_is_one_command_without_a_plan_runs_on_the_writer_thread():
    """Its last statement is a call with the writer as its first argument; nothing before it searches or asks a model."""
    for name, plain in CLASSES.items():
        for function in plain.functions:
            last = function.body[-1]
            call = last.value if isinstance(last, ast.Return) else None
            decides = isinstance(call, ast.Call) and call.args and ast.unparse(call.args[0]) == "self._engine.writer"
            kind = made.plain_classes()[name]
            assert (made.way(kind, function.name) == "decide") == bool(decides), f"{name}.{function.name}"


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
