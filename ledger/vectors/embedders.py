"""The port to a model that turns texts into vectors, its adapters, and the check of what a model gives.

Nothing here touches the network: a model is a package that carries its weights, a directory the user names, or a function.
Whatever needs a package of an extra is loaded on its first use.
"""

from __future__ import annotations

import hashlib
import importlib
import logging
import math
import os
import sys
import threading
from array import array
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

from msgspec import Struct

from ledger.domain.errors import LedgerError, ModelError, NotFoundError, RejectedError
from ledger.domain.text import check_plain, check_text, one_of

MAX_DIMENSION = 65_536
WORDLLAMA_TOKENS, ONNX_TOKENS = 4_096, 512  # what is read of one text
ONNX_BATCH = 32  # texts in one run, of about one length
POOLINGS = {"onnx": "mean", "onnx-cls": "cls"}


class Embedder(Protocol):
    """Anything with a name and ``embed``: texts in, one row of numbers for each out, all rows of one length.

    The name is stored next to the vectors, so it stands for one model for good. ``embed`` may be called from any thread.
    """

    @property
    def name(self) -> str: ...

    def embed(self, texts: list[str], /) -> object: ...


EmbedderLike = Embedder | Callable[[list[str]], object] | str  # what a caller may name


class Vectors(Struct, frozen=True):
    """Vectors of length one (or zero) as little-endian 32-bit floats, and how many numbers each has."""

    dimension: int
    data: list[bytes]


# --- what a model gives ----------------------------------------------------------------------------------------------


def checked_vectors(embedder: Embedder, texts: Sequence[str]) -> Vectors:
    """One vector for each text, brought to length one; a vector of zeros stays as it is.

    ``ModelError`` where the model raises, or gives another count, no numbers, no table, or what is not finite.
    """
    name = embedder.name
    try:
        given = embedder.embed(list(texts))
    except LedgerError:
        raise
    except Exception as error:
        raise ModelError(f"the model {name!r} failed ({type(error).__name__})") from error
    try:
        found = _by_numpy(given) if _has("numpy") else _by_hand(given)
    except (TypeError, ValueError, OverflowError, ArithmeticError) as error:
        raise ModelError(
            f"the model {name!r} gave no table of numbers ({error if type(error) is _Wrong else type(error).__name__});"
            " it has to give one row of numbers for each text, all of one length"
        ) from None
    if len(found.data) != len(texts):
        raise ModelError(f"the model {name!r} gave {len(found.data):,} vectors for {len(texts):,} texts")
    if texts and not 0 < found.dimension <= MAX_DIMENSION:
        raise ModelError(
            f"the model {name!r} gave vectors of {found.dimension:,} numbers; 1 to {MAX_DIMENSION:,} are allowed"
        )
    return found


class _Wrong(ValueError):
    """What is wrong, in words."""


def _by_numpy(given: object) -> Vectors:
    numpy = importlib.import_module("numpy")
    table = numpy.asarray(given)
    if table.dtype.kind not in "fiu":
        raise _Wrong(f"its type is {table.dtype}")
    if table.ndim != 2:
        raise _Wrong(f"it has {table.ndim} dimensions")
    table = table.astype(numpy.float64)
    if not numpy.isfinite(table).all():
        raise _Wrong("not every number is finite")
    if table.size:
        largest = numpy.abs(table).max(axis=1, keepdims=True)  # first, so that no square overflows
        table /= numpy.where(largest > 0, largest, 1)
        length = numpy.sqrt((table * table).sum(axis=1, keepdims=True))
        table /= numpy.where(length > 0, length, 1)
    return Vectors(table.shape[1], [row.tobytes() for row in table.astype("<f4")])


def _by_hand(given: Any) -> Vectors:
    """The same where there is no NumPy."""
    rows = [list(row) for row in given]
    if any(isinstance(each, str | bytes | complex | bool) for row in rows for each in row):
        raise _Wrong("it holds what is no real number")
    if len({len(row) for row in rows}) > 1:
        raise _Wrong("its rows have different lengths")
    return Vectors(len(rows[0]) if rows else 0, [_unit([float(each) for each in row]) for row in rows])


def _unit(row: list[float]) -> bytes:
    if not all(map(math.isfinite, row)):
        raise _Wrong("not every number is finite")
    largest = max(map(abs, row), default=0.0) or 1.0
    scaled = [each / largest for each in row]
    length = math.hypot(*scaled) or 1.0
    floats = array("f", [each / length for each in scaled])
    if sys.byteorder == "big":
        floats.byteswap()
    return floats.tobytes()


# --- which model is meant --------------------------------------------------------------------------------------------


def as_embedder(given: object) -> Embedder:
    """An embedder, a function that has a name, or the name of a model (as ``embedder_named`` knows it)."""
    if isinstance(given, str):
        return embedder_named(given)
    embed = getattr(given, "embed", None)
    name = getattr(given, "name", None) or getattr(given, "__name__", None)
    if not callable(embed) and not callable(given):
        raise RejectedError(
            f"a model has a name and embed(texts), or is a function; a {type(given).__name__} is neither"
        )
    if not isinstance(name, str) or name == "<lambda>":
        raise RejectedError("a model needs a name, for its vectors are kept by it: give it an attribute ``name``")
    check_text("the name of a model", name, max_bytes=200)
    check_plain("an embedder", embed if callable(embed) else given)
    return Named(name, embed if callable(embed) else given)  # type: ignore[arg-type]


class Named:
    """A function as an embedder."""

    def __init__(self, name: str, function: Callable[[list[str]], object]) -> None:
        self.name, self.embed = name, function


def embedder_named(given: str) -> Embedder:
    """``wordllama``, ``onnx:DIRECTORY`` (the mean of all tokens) or ``onnx-cls:DIRECTORY`` (the first token alone).

    ``RejectedError`` for another name and where the extra is not installed; ``NotFoundError`` for a directory without a model.
    """
    kind, colon, place = given.partition(":")
    if given == WordLlama.name:
        return WordLlama()
    if colon and kind in POOLINGS and place:
        return Onnx(place, pooling=POOLINGS[kind])
    raise RejectedError(f"no model is called {given!r:.80}; there are: wordllama, onnx:DIRECTORY, onnx-cls:DIRECTORY")


def _has(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except (ImportError, ValueError):
        return False


def _need(extra: str, *packages: str) -> None:
    missing = [each for each in packages if not _has(each)]
    if missing:
        raise RejectedError(
            f"this model needs the package {missing[0]}: install memory-ledger with its extra, memory-ledger[{extra}]",
            rule="extra",
        )


# --- adapters --------------------------------------------------------------------------------------------------------


class WordLlama:
    """The 256-dimensional model inside the wordllama package: the mean of the vectors of a text's tokens."""

    name = "wordllama"

    def __init__(self) -> None:
        _need("wordllama", "wordllama", "numpy")
        self._model: Any = None
        self._lock = threading.Lock()

    def embed(self, texts: list[str], /) -> object:
        numpy = importlib.import_module("numpy")
        with self._lock:  # its tokenizer is one object
            model = self._model = self._model or self._load()
            found = model.tokenizer.encode_batch(texts, add_special_tokens=False)
        table = numpy.zeros((len(texts), model.embedding.shape[1]), dtype=numpy.float32)
        for place, each in enumerate(found):  # one by one: padding to the longest text of all would take its memory
            if each.ids:
                table[place] = model.embedding[each.ids].mean(axis=0)
        return table

    @staticmethod
    def _load() -> Any:
        root = logging.getLogger()
        level, handlers = root.level, root.handlers[:]
        package = importlib.import_module("wordllama")
        root.setLevel(level)  # the package sets up the logging of the whole program when it is imported
        root.handlers[:] = handlers
        here = Path(str(package.__file__)).parent  # its weights and its tokenizer; without this it looks on the network
        model = package.WordLlama.load(dim=256, cache_dir=here, disable_download=True)
        model.tokenizer.no_padding()
        model.tokenizer.enable_truncation(WORDLLAMA_TOKENS)
        return model


class Onnx:
    """A sentence model in a directory: ``model.onnx`` (there or in ``onnx/``) and ``tokenizer.json``.

    ``pooling`` is "mean", of all tokens, or "cls", the first token. Its name is made of the directory's last part and a
    digest of both files, so that another model in the same place is another name.
    """

    def __init__(self, directory: str | os.PathLike[str], *, pooling: str = "mean") -> None:
        one_of("pooling", pooling, tuple(POOLINGS.values()))
        place = Path(os.fspath(directory)).expanduser()
        self._model = next((each for each in (place / "model.onnx", place / "onnx/model.onnx") if each.is_file()), None)
        self._tokenizer = place / "tokenizer.json"
        for found, what in ((self._model is not None, "model.onnx"), (self._tokenizer.is_file(), "tokenizer.json")):
            if not found:
                raise NotFoundError(f"there is no {what} in {str(place)[:500]}; nothing is downloaded, so put it there")
        _need("onnx", "onnxruntime", "tokenizers", "numpy")
        self._pooling, self._lock = pooling, threading.Lock()
        self._loaded: tuple[Any, Any] | None = None
        kind = next(kind for kind, pooling in POOLINGS.items() if pooling == self._pooling)
        self.name = f"{kind}:{place.resolve().name[:80]}:{self._digest()}"

    def _digest(self) -> str:
        total = hashlib.sha256()
        for path in (self._model, self._tokenizer):
            assert path is not None
            with path.open("rb") as file:
                total.update(hashlib.file_digest(file, "sha256").digest())
        return total.hexdigest()[:12]

    def embed(self, texts: list[str], /) -> object:
        numpy = importlib.import_module("numpy")
        ordered = sorted(range(len(texts)), key=lambda each: len(texts[each]))
        found: list[object] = [None] * len(texts)
        for start in range(0, len(ordered), ONNX_BATCH):
            places = ordered[start : start + ONNX_BATCH]
            for place, row in zip(places, self._run(numpy, [texts[each] for each in places]), strict=True):
                found[place] = row
        return numpy.array(found)

    def _run(self, numpy: ModuleType, texts: list[str]) -> Any:
        with self._lock:
            session, tokenizer = self._loaded = self._loaded or self._load()
            read = tokenizer.encode_batch(texts)
        mask = numpy.array([each.attention_mask for each in read], dtype=numpy.int64)
        known = {
            "input_ids": numpy.array([each.ids for each in read], dtype=numpy.int64),
            "attention_mask": mask,
            "token_type_ids": numpy.array([each.type_ids for each in read], dtype=numpy.int64),
        }
        asked = [each.name for each in session.get_inputs()]
        if strange := [name for name in asked if name not in known]:
            raise ModelError(f"the model {self.name!r} asks for {strange[0]!r:.40}, which no text model gets here")
        given = session.run(None, {name: known[name] for name in asked})[0]
        if given.ndim == 2:  # it pools by itself
            return given
        if self._pooling == "cls":
            return given[:, 0]
        weights = mask[:, :, None].astype(given.dtype)
        return (given * weights).sum(axis=1) / numpy.maximum(weights.sum(axis=1), 1)

    def _load(self) -> tuple[Any, Any]:
        runtime = importlib.import_module("onnxruntime")
        tokenizers = importlib.import_module("tokenizers")
        options = runtime.SessionOptions()
        options.log_severity_level = 3
        session = runtime.InferenceSession(str(self._model), options, providers=["CPUExecutionProvider"])
        tokenizer = tokenizers.Tokenizer.from_file(str(self._tokenizer))
        padding = tokenizer.padding or {}
        tokenizer.enable_truncation(ONNX_TOKENS)
        tokenizer.enable_padding(**{each: padding[each] for each in ("pad_id", "pad_token") if each in padding})
        return session, tokenizer
