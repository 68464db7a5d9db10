"""What people type first, as they know it from other libraries: an error that names our call."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ledger import Ledger
from ledger.aio.ledger import AsyncLedgerRead
from ledger.api import LedgerRead
from ledger.core.area import CALLS, UnknownCallError


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    with Ledger.temporary() as opened:
        yield opened


@pytest.mark.parametrize("name", CALLS)
def test_a_call_of_another_library_names_ours_and_is_nowhere_to_be_seen(ledger: Ledger, name: str) -> None:
    for owner in (ledger, ledger.bind(user="bob"), ledger.at(1)):
        with pytest.raises(UnknownCallError, match=f"has no '{name}': ledger\\."):
            getattr(owner, name)
        assert not hasattr(owner, name) and name not in dir(owner)


def test_the_calls_of_other_libraries_are_named_on_memories_too(ledger: Ledger) -> None:
    with pytest.raises(AttributeError, match=r"Memories has no 'search': ledger\.recall\(question\) searches"):
        ledger.memories.search("tea")  # type: ignore[attr-defined]
    assert ledger.memories.get(ledger.remember("Ada likes tea.").id).content == "Ada likes tea."


@pytest.mark.parametrize("text", sorted({*CALLS.values()}))
def test_every_call_that_a_hint_names_is_there(ledger: Ledger, text: str) -> None:
    for word in text.split("ledger.")[1:]:
        found: Any = ledger
        for name in word.partition("(")[0].split("."):
            assert name in dir(found), word
            found = getattr(found, name) if name != "types" else None
            if found is None:
                break


def test_another_name_is_the_error_that_python_gives(ledger: Ledger) -> None:
    with pytest.raises(AttributeError) as error:
        ledger.recal  # type: ignore[attr-defined]  # noqa: B018
    assert str(error.value) == "'Ledger' object has no attribute 'recal'"
    assert (error.value.name, error.value.obj) == ("recal", ledger)  # by which a traceback asks: did you mean 'recall'?


@pytest.mark.parametrize(
    ("call", "known"),
    [
        (lambda ledger: ledger.recall("tea", top_k=3), r"Ledger.recall\(\) got an unexpected keyword argument 'top_k'"),
        (lambda ledger: ledger.at(1).recall("tea", user="a"), r"Ledger.recall\(\) got an unexpected keyword .* 'user'"),
        (lambda ledger: ledger.memories.list(user_id="a"), r"Memories.list\(\) got an unexpected keyword .* 'user_id'"),
        (lambda ledger: Ledger.open("x.db", user_id="a"), r"Ledger.open\(\) got an unexpected keyword .* 'user_id'"),
        (lambda ledger: ledger.remember("Tea.", source="i_1"), r"unexpected .* 'source'; .* every write takes: agent"),
        (lambda ledger: ledger.undo(1, deep=True), "unexpected keyword argument 'deep'; .* every write takes: agent"),
    ],
)  # fmt: skip
def test_an_unknown_argument_is_the_error_that_python_gives(
    ledger: Ledger, call: Callable[[Any], object], known: str
) -> None:
    with pytest.raises(TypeError, match=f"^{known}"):
        call(ledger)
    assert ledger.position == 1


def test_an_error_about_arguments_shows_no_frame_between_the_caller_and_the_call(ledger: Ledger) -> None:
    with pytest.raises(TypeError) as error:
        ledger.recall("tea", top_k=3)  # type: ignore[call-arg]
    assert error.value.__traceback__ is not None and error.value.__traceback__.tb_next is None


def test_what_a_call_does_not_get_by_its_place_is_said_by_python(ledger: Ledger) -> None:
    with pytest.raises(TypeError, match="takes 2 positional arguments but 3 were given"):
        ledger.recall("tea", 5)  # type: ignore[misc]


def test_a_type_error_of_a_callback_is_not_reworded(ledger: Ledger) -> None:
    def counter(done: int) -> None: ...

    with pytest.raises(TypeError, match=r"counter\(\) takes 1 positional argument but 2 were given"):
        ledger.maintenance.rebuild(progress=counter)  # type: ignore[arg-type]


def test_the_signatures_of_calls_are_those_of_the_source() -> None:
    assert [*inspect.signature(LedgerRead.profile).parameters] == ["self", "kinds", "budget", "unit"]
    assert inspect.signature(Ledger.doctor).parameters["path"].annotation == "StrPath"
    assert LedgerRead.recall.__doc__ and LedgerRead.recall.__name__ == "recall"


@pytest.mark.parametrize(
    ("call", "known"),
    [
        (lambda ledger: ledger.context(), "Ledger.context"),
        (lambda ledger: ledger.at(1).context(), "Ledger.context"),
        (lambda ledger: ledger.memories.get(), "Memories.get"),
        (lambda ledger: ledger.session("monday").window(), "Session.window"),
        (lambda ledger: ledger.history.audit(5), "History.audit"),
    ],
)
def test_an_error_about_arguments_names_the_class_that_users_know(
    ledger: Ledger, call: Callable[[Any], object], known: str
) -> None:
    with pytest.raises(TypeError, match=rf"^{known}\(\) "):
        call(ledger)


def test_an_awaited_call_without_its_argument_names_the_class_that_users_know() -> None:
    assert AsyncLedgerRead.context.__qualname__ == "AsyncLedger.context"


@pytest.mark.parametrize(
    ("call", "known"),
    [
        (lambda past: past.remember("Tea."), "Ledger has no 'remember'"),
        (lambda past: past.undo(1), "Ledger has no 'undo'"),
        (lambda past: past.session("monday").append("user", "Tea?"), "Session has no 'append'"),
        (lambda past: past.values.put(("ada",), "tea", 1), "Values has no 'put'"),
        (lambda past: past.memories.tag("m_1", add=["tea"]), "Memories has no 'tag'"),
    ],
)
def test_a_write_to_the_past_is_told_that_there_are_only_reads(
    ledger: Ledger, call: Callable[[Any], object], known: str
) -> None:
    with pytest.raises(AttributeError, match=rf"^{known} as of a moment: it only reads; call it on the open ledger$"):
        call(ledger.at(1))


def test_a_misspelt_call_of_a_namespace_is_the_error_that_python_gives(ledger: Ledger) -> None:
    for owner, name in ((ledger.values, "'Values'"), (ledger.at(1).values, "'Values'"), (ledger.at(1), "'PastLedger'")):
        with pytest.raises(AttributeError, match=f"^{name} object has no attribute 'pot'$"):
            owner.pot  # noqa: B018


def test_a_namespace_that_is_called_says_what_to_call(ledger: Ledger) -> None:
    with pytest.raises(TypeError, match=r"History cannot be called: ledger\.why\(id\) .* ledger\.history\.audit\("):
        ledger.history("m_1")  # type: ignore[operator]
    with pytest.raises(
        TypeError, match=r"Memories cannot be called: its calls are confidence, correct, end, get, list"
    ):
        ledger.memories()  # type: ignore[operator]
    with pytest.raises(TypeError, match=r"Ledger cannot be called: ledger\.recall"):
        ledger("tea")  # type: ignore[operator]


def test_a_question_in_words_is_no_query(ledger: Ledger) -> None:
    with pytest.raises(Exception, match=r"because it only reads, and got .*; recall\(question\) searches"):
        ledger.query("Which coffee?")
