"""The rows of the benchmark about ``capture()`` with its search for restated memories, and its growth with the pool.

Real texts are not ours to ship, so words are drawn that meet each other about as often as in conversations. Each memory of 5
to 10 words has one of 300 topics, an answer has one or three, and half of the words have none. Of 100,000 memories in one pool
some hundred then share enough words with a long answer to be compared, and the answer restates three of them. With ``--data``
the memories are sentences of transcripts, as ``tools/evaluate/evaluate.py`` takes them, and pairs of neighbouring sentences if
these are too few; the answers are the turns of about as many stems. The figures are processor time; the sizes take turns.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from functools import cache
from itertools import accumulate, pairwise

from ledger import Ledger, RejectedError
from ledger.english.meaning import SENTENCE
from ledger.english.words import stems
from tools.bench.measuring import Figure, Options, p95, say
from tools.evaluate.evaluate import load

STEMS = {"short": (12, 1, 0.008), "long": (160, 3, 0.030)}  # stems of an answer, memories restated, seconds allowed
GROWTH, SMALL, LARGE = 3.5, 1_000, 100_000
TOPICS, OF_TOPIC, COMMON = 300, 80, 1_500  # words


class Words:
    """A source of sentences on topics, the same in each run."""

    def __init__(self) -> None:
        maker, words = random.Random(7), dict[str, None]()
        syllables = [a + b for a in "bcdfghjklmnprtvwz" for b in "aeiou"]
        while len(words) < COMMON + TOPICS * OF_TOPIC // 2:
            words["".join(maker.choices(syllables, k=maker.choice((2, 3, 3, 4))))] = None
        self._common, others = list(words)[:COMMON], list(words)[COMMON:]
        self._topics = [maker.sample(others, OF_TOPIC) for _ in range(TOPICS)]

    def memories(self, size: int) -> list[str]:
        draw = random.Random(1)
        return [self.sentence(draw.randrange(TOPICS), draw.randint(5, 10), draw) for _ in range(size)]

    def answers(self, kind: str, memories: list[str]) -> Iterator[str]:
        (count, restated, _), draw = STEMS[kind], random.Random(2)
        while True:
            passage, chosen = self.answer(count, draw), int(draw.random() * len(memories))
            yield ". ".join((passage, *(memories[chosen - offset] for offset in range(restated))))

    def sentence(self, topic: int, count: int, draw: random.Random) -> str:
        lists = (self._topics[topic] if draw.random() < 0.5 else self._common for _ in range(count))
        return " ".join(draw.choices(vocabulary, cum_weights=_weights(len(vocabulary)))[0] for vocabulary in lists)

    def answer(self, count: int, draw: random.Random) -> str:
        """Return an answer of so many stems."""
        topics, sentences = draw.sample(range(TOPICS), 1 if count < 20 else 3), list[str]()
        while (left := count - len(stems(" ".join(sentences)))) > 0:
            sentences.append(self.sentence(draw.choice(topics), min(left, 12), draw))
        return ". ".join(sentences)


@cache
def _weights(count: int) -> list[float]:
    return list(accumulate(1 / (rank + 8) for rank in range(count)))


class Turns:
    """The sentences and turns of transcripts, the same in each run."""

    def __init__(self, paths: Sequence[str]) -> None:
        self._turns = [turn["text"] for path in paths for conversation in load(path) for turn in conversation["turns"]]
        texts = [[part for part in SENTENCE.split(text) if 20 < len(part) < 300] for text in self._turns]
        single = list(dict.fromkeys(sentence for sentences in texts for sentence in sentences))
        double = list(dict.fromkeys(" ".join(pair) for sentences in texts for pair in pairwise(sentences)))
        draw = random.Random(1)
        self._memories = [*draw.sample(single, len(single)), *draw.sample(double, len(double))]

    def memories(self, size: int) -> list[str]:
        return self._memories[:size]

    def answers(self, kind: str, memories: list[str]) -> Iterator[str]:
        yield from sorted(self._turns, key=lambda text: abs(len(stems(text)) - STEMS[kind][0]))


def measure(options: Options) -> list[Figure]:
    texts = Turns(options.data) if options.data else Words()
    sizes = (SMALL, min(LARGE, max(options.sizes)))
    took = {(kind, size): list[float]() for kind in STEMS for size in sizes}
    with ExitStack() as stack:
        sites = []
        for size in sizes:
            say(f"reinforce: one pool of {size:,} memories")
            ledger = stack.enter_context(Ledger.open(options.directory / f"pool-{size}.db"))
            sites.append((size, ledger, memories := texts.memories(size)))
            with ledger.batch():
                for memory in memories:
                    with suppress(RejectedError):  # a guard may refuse a sentence
                        ledger.remember(memory, kind="preference")
        for kind in STEMS:
            answers = [texts.answers(kind, memories) for _, _, memories in sites]
            for turn in range(-3, min(options.samples, 60)):
                for (size, ledger, _), site_answers in zip(sites, answers, strict=True):
                    answer = next(site_answers)
                    begun = time.process_time()
                    ledger.capture("What is known of that?", answer)
                    if turn >= 0:
                        took[kind, size].append(time.process_time() - begun)
    return [figure for kind in STEMS for figure in _figures(kind, sizes, took)]


def _figures(kind: str, sizes: tuple[int, int], took: dict[tuple[str, int], list[float]]) -> Iterator[Figure]:
    count, _, limit = STEMS[kind]
    small, large = (statistics.median(took[kind, size]) for size in sizes)
    label = f"capture() + reinforce in processor time, an answer of {count} stems"
    yield Figure(what=label, size=sizes[0], ours=small, ours_p95=p95(took[kind, sizes[0]]))
    yield Figure(what=label, size=sizes[1], ours=large, ours_p95=p95(took[kind, sizes[1]]), limit=limit,
                 ratio=large / limit, reach=f"≤ {limit * 1_000:.0f} ms", met=large <= limit)  # fmt: skip
    yield Figure(what=f"the same, against itself at {sizes[0]:,}", size=sizes[1], ours=large, limit=small,
                 ratio=large / small, reach=f"≤ {GROWTH} ×", met=large <= GROWTH * small)  # fmt: skip
