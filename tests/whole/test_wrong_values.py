"""What no method takes is a typed error at every one of them: found by their signatures, so that a new one is tried too."""

from __future__ import annotations

import inspect
import random
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from ledger import RejectedError
from ledger.api import Ledger, PastLedger
from tools.crash.fuzz_surface import alone, arguments, names, prepared, targets, tried

EACH, CALLS = 40, 15  # of the wrong values at one parameter, and of calls where several are wrong


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Ledger, list[Any]]]:
    with Ledger.open(tmp_path_factory.mktemp("bad") / "memory.db", user="ada") as ledger:
        yield ledger, prepared(ledger)


@pytest.mark.parametrize("name", names(Ledger))
def test_a_method_answers_or_raises_an_error_of_the_product(
    filled: tuple[Ledger, list[Any]], name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger, known = filled
    monkeypatch.chdir(tmp_path)  # where files may be made
    method, chance = targets(ledger, name), random.Random(name)
    cases = list(alone(method, known))
    cases = chance.sample(cases, min(EACH, len(cases))) + [arguments(chance, method, known) for _ in range(CALLS)]
    assert [(problem, given) for given in cases if (problem := tried(method, given))] == []


@pytest.mark.parametrize("name", names(PastLedger))
def test_so_does_a_moment_of_the_past(filled: tuple[Ledger, list[Any]], name: str) -> None:
    ledger, known = filled
    method, chance = targets(ledger.at(ledger.position), name), random.Random(name)
    cases = [arguments(chance, method, known) for _ in range(CALLS)]
    assert [(problem, given) for given in cases if (problem := tried(method, given))] == []


def listings() -> list[str]:
    """The methods that can be called with a limit alone."""
    found = []
    for name in names(Ledger):
        parameters = inspect.signature(_of_the_class(name)).parameters.values()
        needed = [each for each in parameters if each.default is each.empty and each.name != "self"]
        if not needed and any(each.name == "after" for each in parameters):
            found.append(name)
    return found


def _of_the_class(name: str) -> Any:
    from tools.pages.public_surface import methods

    return dict(methods(Ledger))[name]


@pytest.mark.parametrize("name", listings())
@pytest.mark.parametrize("limit", [-1, 1_001, True, 1.0, "5", None, 10**400, float("nan")])
def test_every_listing_rejects_an_invalid_limit(filled: tuple[Ledger, list[Any]], name: str, limit: Any) -> None:
    with pytest.raises(RejectedError):
        targets(filled[0], name)(limit=limit)


@pytest.mark.parametrize("name", listings())
def test_a_time_without_an_offset_is_rejected_and_a_duration_is_a_time_ago(
    filled: tuple[Ledger, list[Any]], name: str
) -> None:
    method = targets(filled[0], name)
    for parameter in set(inspect.signature(method).parameters) & {"since", "until"}:
        for wrong in ("2026-01-01T10:00:00", datetime(2026, 1, 1, 10), "soon", "-5d", 5.5, b"7d"):
            with pytest.raises(RejectedError):
                method(**{parameter: wrong})
        method(**{parameter: "7d"})


@pytest.mark.parametrize("wrong", ["2026-01-01T10:00:00", datetime(2026, 1, 1, 10), "soon", 7, float("nan")])
@pytest.mark.parametrize("parameter", ["occurred_at", "valid_from", "valid_to"])
def test_a_write_takes_no_time_without_an_offset(filled: tuple[Ledger, list[Any]], parameter: str, wrong: Any) -> None:
    with pytest.raises(RejectedError):
        filled[0].remember("The lamp is off.", **{parameter: wrong})


@pytest.mark.parametrize("wrong", [1j, 7, b"ada", ["ada"], object()])
def test_a_filter_that_is_no_text_is_rejected_and_never_reaches_the_database(
    filled: tuple[Ledger, list[Any]], wrong: Any
) -> None:
    ledger, _ = filled
    for then in (ledger, ledger.at(ledger.position)):
        for name in ("subject", "actor", "client", "type", "text", "command", "correlation_id"):
            with pytest.raises(RejectedError, match=rf"{name} (is|must be) a text"):
                then.history.audit(**{name: wrong})
        with pytest.raises(RejectedError, match=r"client (is|must be) a text"):
            then.interactions.list(client=wrong)
        with pytest.raises(RejectedError, match=r"name (is|must be) a text"):
            then.projects.state("atlas", name=wrong)
        with pytest.raises(RejectedError, match=r"question (is|must be) a text"):
            then.session("talk").window(100, question=wrong)
    for name in ("session", "command", "correlation_id"):
        with pytest.raises(RejectedError, match=rf"{name} (is|must be) a text"):
            ledger.history.undo_all(**{name: wrong})
