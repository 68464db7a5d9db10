"""The interface of models that turn texts into vectors, adapters for some models, and the check of their vectors.

Nothing here uses the network. A model is a package that contains its weights, a directory that the user names, or a function.
The packages of an extra are imported on first use.
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
WORDLLAMA_TOKENS, ONNX_TOKENS = 4_096, 512  # tokens read of one text
ONNX_BATCH = 32  # texts in one run, sorted by length so that little is padded
POOLINGS = {"onnx": "mean", "onnx-cls": "cls"}


class Embedder(Protocol):
    """A model with a name and ``embed``, which turns texts into one row of numbers each, all rows of one length.

    The name is stored with the vectors, so it must always mean the same model. ``embed`` may be called from any thread.
    """

    @property
    def name(self) -> str: ...

    def embed(self, texts: list[str], /) -> object: ...


EmbedderLike = Embedder | Callable[[list[str]], object] | str  # the forms in which a caller may give a model


class UnitVectors(Struct, frozen=True):
    """Vectors of length one (or zero) as little-endian 32-bit floats; ``dimension`` is how many numbers each has."""

    dimension: int
    data: list[bytes]


# --- the check of vectors --------------------------------------------------------------------------------------------


def checked_vectors(embedder: Embedder, texts: Sequence[str]) -> UnitVectors:
    """Return one vector for each text, scaled to length one; a vector of zeros stays as it is.

    Raises:
        ModelError: The model raises an error, or gives another number of rows, values that are not finite numbers, or no table.
    """
    name = embedder.name
    try:
        output = embedder.embed(list(texts))
    except LedgerError:
        raise
    except Exception as error:
        raise ModelError(f"the model {name!r} failed ({type(error).__name__})") from error
    try:
        checked = _by_numpy(output) if _has("numpy") else _by_hand(output)
    except (TypeError, ValueError, OverflowError, ArithmeticError) as error:
        raise ModelError(
            f"the model {name!r} gave no table of numbers ({error if type(error) is _Wrong else type(error).__name__});"
            " a model must give one row of numbers for each text, all of one length"
        ) from None
    if len(checked.data) != len(texts):
        raise ModelError(f"the model {name!r} gave {len(checked.data):,} vectors for {len(texts):,} texts")
    if texts and not 0 < checked.dimension <= MAX_DIMENSION:
        raise ModelError(
            f"the model {name!r} gave vectors of {checked.dimension:,} numbers; 1 to {MAX_DIMENSION:,} are allowed"
        )
    return checked


class _Wrong(ValueError):
    """The error of a model's output, with the reason in words."""


def _by_numpy(output: object) -> UnitVectors:
    numpy = importlib.import_module("numpy")
    table = numpy.asarray(output)
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
    return UnitVectors(table.shape[1], [row.tobytes() for row in table.astype("<f4")])


def _by_hand(output: Any) -> UnitVectors:
    """Return the same vectors as ``_by_numpy`` without NumPy."""
    rows = [list(row) for row in output]
    if any(isinstance(number, str | bytes | complex | bool) for row in rows for number in row):
        raise _Wrong("it holds values that are no real numbers")
    if len({len(row) for row in rows}) > 1:
        raise _Wrong("its rows have different lengths")
    return UnitVectors(len(rows[0]) if rows else 0, [_unit([float(number) for number in row]) for row in rows])


def _unit(row: list[float]) -> bytes:
    if not all(map(math.isfinite, row)):
        raise _Wrong("not every number is finite")
    largest = max(map(abs, row), default=0.0) or 1.0
    scaled = [number / largest for number in row]
    length = math.hypot(*scaled) or 1.0
    floats = array("f", [number / length for number in scaled])
    if sys.byteorder == "big":
        floats.byteswap()
    return floats.tobytes()


# --- from a name to a model ------------------------------------------------------------------------------------------


def as_embedder(model: object) -> Embedder:
    """Return the embedder for an embedder, a named function, or the name of a model (see ``embedder_named``)."""
    if isinstance(model, str):
        return embedder_named(model)
    embed = getattr(model, "embed", None)
    name = getattr(model, "name", None) or getattr(model, "__name__", None)
    if not callable(embed) and not callable(model):
        raise RejectedError(
            f"a model is an object with a name and embed(texts), or a function; a {type(model).__name__} is neither"
        )
    if not isinstance(name, str) or name == "<lambda>":
        raise RejectedError(
            "a model needs a name, under which its vectors are stored: give the model an attribute ``name``"
        )
    check_text("the name of a model", name, max_bytes=200)
    check_plain("an embedder", embed if callable(embed) else model)
    return FunctionEmbedder(name, embed if callable(embed) else model)  # type: ignore[arg-type]


class FunctionEmbedder:
    """An embedder made of a name and a function."""

    def __init__(self, name: str, function: Callable[[list[str]], object]) -> None:
        self.name, self.embed = name, function


def embedder_named(name: str) -> Embedder:
    """Return the model ``wordllama``, ``onnx:DIRECTORY`` (mean of all tokens) or ``onnx-cls:DIRECTORY`` (first token).

    Raises:
        RejectedError: The name is unknown, or the extra with the packages is not installed.
        NotFoundError: The directory has no model.
    """
    kind, colon, place = name.partition(":")
    if name == WordLlama.name:
        return WordLlama()
    if colon and kind in POOLINGS and place:
        return Onnx(place, pooling=POOLINGS[kind])
    raise RejectedError(f"no model is called {name!r:.80}; there are: wordllama, onnx:DIRECTORY, onnx-cls:DIRECTORY")


def _has(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except (ImportError, ValueError):
        return False


def _need(extra: str, *packages: str) -> None:
    missing = [package for package in packages if not _has(package)]
    if missing:
        raise RejectedError(
            f'this model needs the package {missing[0]}: pip install "belief-ledger[{extra}]"',
            rule="extra",
        )


# --- adapters --------------------------------------------------------------------------------------------------------


class WordLlama:
    """The 256-dimensional model in the package wordllama: the mean of the vectors of a text's tokens."""

    name = "wordllama"

    def __init__(self) -> None:
        _need("wordllama", "wordllama", "numpy")
        self._model: Any = None
        self._lock = threading.Lock()

    def embed(self, texts: list[str], /) -> object:
        numpy = importlib.import_module("numpy")
        with self._lock:  # all threads share one tokenizer
            model = self._model = self._model or self._load()
            encodings = model.tokenizer.encode_batch(texts, add_special_tokens=False)
        table = numpy.zeros((len(texts), model.embedding.shape[1]), dtype=numpy.float32)
        # A loop, because padding all texts to the longest would need much memory.
        for place, encoding in enumerate(encodings):
            if encoding.ids:
                table[place] = model.embedding[encoding.ids].mean(axis=0)
        return table

    @staticmethod
    def _load() -> Any:
        root = logging.getLogger()
        level, handlers = root.level, root.handlers[:]
        package = importlib.import_module("wordllama")
        root.setLevel(level)  # the import of the package changes the logging of the whole program
        root.handlers[:] = handlers
        here = Path(str(package.__file__)).parent  # has the weights and the tokenizer, so that nothing is downloaded
        model = package.WordLlama.load(dim=256, cache_dir=here, disable_download=True)
        model.tokenizer.no_padding()
        model.tokenizer.enable_truncation(WORDLLAMA_TOKENS)
        return model


class Onnx:
    """A sentence model in a directory with ``model.onnx`` (there or in ``onnx/``) and ``tokenizer.json``.

    ``pooling`` is "mean" for the mean of all tokens, or "cls" for the first token. The name consists of the directory's last part
    and a digest of both files, so another model in the same directory has another name.
    """

    def __init__(self, directory: str | os.PathLike[str], *, pooling: str = "mean") -> None:
        one_of("pooling", pooling, tuple(POOLINGS.values()))
        place = Path(os.fspath(directory)).expanduser()
        self._model = next((path for path in (place / "model.onnx", place / "onnx/model.onnx") if path.is_file()), None)
        self._tokenizer = place / "tokenizer.json"
        for is_there, file in ((self._model is not None, "model.onnx"), (self._tokenizer.is_file(), "tokenizer.json")):
            if not is_there:
                raise NotFoundError(
                    f"there is no {file} in {str(place)[:500]}; nothing is downloaded, so put the file there"
                )
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
        ordered = sorted(range(len(texts)), key=lambda place: len(texts[place]))
        rows: list[object] = [None] * len(texts)
        for start in range(0, len(ordered), ONNX_BATCH):
            places = ordered[start : start + ONNX_BATCH]
            for place, row in zip(places, self._run(numpy, [texts[place] for place in places]), strict=True):
                rows[place] = row
        return numpy.array(rows)

    def _run(self, numpy: ModuleType, texts: list[str]) -> Any:
        with self._lock:
            session, tokenizer = self._loaded = self._loaded or self._load()
            encodings = tokenizer.encode_batch(texts)
        mask = numpy.array([encoding.attention_mask for encoding in encodings], dtype=numpy.int64)
        inputs = {
            "input_ids": numpy.array([encoding.ids for encoding in encodings], dtype=numpy.int64),
            "attention_mask": mask,
            "token_type_ids": numpy.array([encoding.type_ids for encoding in encodings], dtype=numpy.int64),
        }
        names = [input.name for input in session.get_inputs()]
        if unknown := [name for name in names if name not in inputs]:
            raise ModelError(
                f"the model {self.name!r} asks for the input {unknown[0]!r:.40}; a text model may ask for {', '.join(inputs)}"
            )
        output = session.run(None, {name: inputs[name] for name in names})[0]
        if output.ndim == 2:  # the model pools the tokens itself
            return output
        if self._pooling == "cls":
            return output[:, 0]
        weights = mask[:, :, None].astype(output.dtype)
        return (output * weights).sum(axis=1) / numpy.maximum(weights.sum(axis=1), 1)

    def _load(self) -> tuple[Any, Any]:
        runtime = importlib.import_module("onnxruntime")
        tokenizers = importlib.import_module("tokenizers")
        options = runtime.SessionOptions()
        options.log_severity_level = 3
        session = runtime.InferenceSession(str(self._model), options, providers=["CPUExecutionProvider"])
        tokenizer = tokenizers.Tokenizer.from_file(str(self._tokenizer))
        padding = tokenizer.padding or {}
        tokenizer.enable_truncation(ONNX_TOKENS)
        tokenizer.enable_padding(**{name: padding[name] for name in ("pad_id", "pad_token") if name in padding})
        return session, tokenizer
