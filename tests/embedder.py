"""A model that makes vectors of words, without any file or network."""

from __future__ import annotations

import random
from collections.abc import Callable

WIDTH = 128


class Words:
    """A model that knows words only: a text is the sum of a random direction for each of its words."""

    def __init__(self, name: str = "words", width: int = WIDTH) -> None:
        self.name, self.width = name, width
        self.calls: list[list[str]] = []
        self.before: Callable[[], object] = lambda: None

    def embed(self, texts: list[str]) -> list[list[float]]:
        self.calls.append(list(texts))
        self.before()
        return [self.vector(text) for text in texts]

    def vector(self, text: str) -> list[float]:
        words = [self.direction(word) for word in text.lower().replace(".", "").replace("?", "").split()]
        return [sum(column) for column in zip(*words, strict=True)] if words else [0.0] * self.width

    def direction(self, word: str) -> list[float]:
        draw = random.Random(self.name + word)
        return [draw.gauss(0, 1) for _ in range(self.width)]

    @property
    def made(self) -> int:
        return sum(map(len, self.calls))
