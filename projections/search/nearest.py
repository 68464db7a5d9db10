"""Exact search among the vectors of one model, by NumPy in memory.

The vectors in memory follow the file: other processes' vectors come in, deleted ones go out, and after every event that may
have changed a text the list of texts without a vector is corrected. An older snapshot changes nothing.
"""

from __future__ import annotations

import importlib
import sqlite3
import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from itertools import islice
from types import ModuleType
from typing import Any

from ledger.events import ContentErased
from projections.search import vectors
from projections.search.vectors import CORPORA, Key, Text, VectorEntry

DECIMALS = 6  # of a cosine: further ones depend on the order of additions
CHUNK = 4_000  # vectors that are read together
WIDENING = 4  # the factor by which the ranking is read further if too few of its first texts are wanted

Hit = tuple[str, int, float]  # (corpus, row, cosine)
Ranked = tuple[str, int, float, bytes]  # a hit with the digest of the text that the vector was made of
Keep = Callable[[str, Sequence[int]], Collection[int]]  # returns the wanted rows among some rows of a corpus
Ranking = Callable[[int], list[Ranked]]  # returns the given number of best hits


class WrongDimension(Exception):
    """The vectors in the file have another dimension than those of the model."""


class VectorIndex:
    """The vectors of one model that an open ledger keeps in memory, for many threads."""

    def __init__(self, secret: bytes, model: str, matrix: Matrix) -> None:
        self._secret, self._model, self._matrix = secret, model, matrix
        self._lock = threading.Lock()
        self._forget()

    def _forget(self) -> None:
        self._matrix.clear()
        self._seen = 0  # the highest id of the file at the last refresh
        self._last = 0  # the highest id in memory
        self._marks: dict[Key, bytes] = {}
        self._lacking: dict[Key, tuple[bytes, int]] = {}  # digest of the text, and its owner
        self._unsure: set[Key] = set()  # keys whose vector was deleted or is damaged
        self._position, self._generation = -1, -1

    def clear(self) -> None:
        with self._lock:
            self._forget()

    # --- following the file --------------------------------------------------------------------------------------

    def refresh(self, connection: sqlite3.Connection, dimension: int) -> None:
        """Bring the vectors in memory up to this snapshot.

        Raises:
            WrongDimension: The vectors of the file have another dimension.
        """
        with self._lock:
            position = connection.execute("SELECT max(position) FROM main.events").fetchone()[0] or 0
            if 0 <= self._position < position and vectors.came(connection, self._position, position, (ContentErased,)):
                self._forget()  # nothing of an erased text stays in memory
            seen = vectors.last_id(connection)
            if seen is None:
                if self._seen:
                    self._forget()
            elif seen >> vectors.ID_BITS != self._seen >> vectors.ID_BITS:
                self._forget()
                self._follow(connection, seen, dimension)
            elif seen >= self._seen:
                self._follow(connection, seen, dimension)
            self._survey(connection, position)

    def _follow(self, connection: sqlite3.Connection, seen: int, dimension: int) -> None:
        stored = vectors.dimension(connection, self._model)
        if stored is not None and stored != dimension:
            self._forget()
            raise WrongDimension(f"the stored vectors have {stored} numbers, but the model now returns {dimension}")
        if self._last and not _has(connection, self._last):
            stored_ids = vectors.ids(connection, self._model)
            for key in self._matrix.forget(self._matrix.ids() - stored_ids):
                self._marks.pop(key, None)
                self._unsure.add(key)
            self._last = max((id for id in stored_ids if id <= self._last), default=0)
        if not self._last:
            self._matrix.expect(vectors.counts(connection).get(self._model, 0), dimension)
        new = vectors.entries(connection, self._model, self._last)
        while batch := list(islice(new, CHUNK)):
            self._last = batch[-1].id
            self._unsure.update(entry.key for entry in batch if len(entry.vector) != 4 * dimension)
            self._take([entry for entry in batch if len(entry.vector) == 4 * dimension])
        self._seen = seen

    def _take(self, entries: Sequence[VectorEntry]) -> None:
        damaged = set(self._matrix.add(entries))
        self._unsure |= damaged
        for entry in entries:
            if entry.key in damaged:
                self._marks.pop(entry.key, None)
                continue
            self._marks[entry.key] = entry.text
            if self._lacking.get(entry.key, (b"", 0))[0] == entry.text:
                del self._lacking[entry.key]

    def _survey(self, connection: sqlite3.Connection, position: int) -> None:
        """Correct the list of texts without a current vector by the events since the last look."""
        generation = connection.execute("SELECT max(generation) FROM main.checkpoint").fetchone()[0]
        if position < self._position:
            return
        after = self._position if generation == self._generation else -1
        changed = vectors.changed(connection, after, position)
        if changed is None:
            for letter in CORPORA:
                known = [key for key in (*self._marks, *self._lacking) if key[0] == letter]
                self._compare(vectors.texts(connection, letter, None, "main."), known)
        else:
            for letter in CORPORA:
                rows = {row for corpus, row in self._unsure if corpus == letter}.union(changed[letter])
                if rows:
                    self._compare(vectors.texts(connection, letter, rows, "main."), [(letter, row) for row in rows])
        self._unsure.clear()
        self._position, self._generation = position, generation

    def _compare(self, texts: Iterable[Text], before: Iterable[Key]) -> None:
        gone = set(before)
        for text in texts:
            key, now = (text.corpus, text.row), vectors.mark(self._secret, text.text)
            gone.discard(key)
            if self._marks.get(key) == now:
                self._lacking.pop(key, None)
            else:
                self._lacking[key] = (now, vectors.owner_of(self._secret, text.user))
        for key in gone:
            self._lacking.pop(key, None)

    # --- vectors that are not in the file ------------------------------------------------------------------------

    def lacking(self, user: str, corpora: Collection[str]) -> list[Key]:
        """Return the texts of a user without a vector, newest first."""
        owner = vectors.owner_of(self._secret, user)
        with self._lock:
            keys = [key for key, (_, whose) in self._lacking.items() if whose == owner and key[0] in corpora]
        return sorted(keys, key=lambda key: key[1], reverse=True)

    def add(self, entries: Sequence[VectorEntry]) -> None:
        """Take vectors that were just made. They may never be written to the file."""
        with self._lock:
            self._take(entries)

    # --- searches ------------------------------------------------------------------------------------------------

    def nearest(
        self,
        connection: sqlite3.Connection,
        query: bytes,
        user: str,
        *,
        corpora: Sequence[str],
        limit: int,
        keep: Keep | None = None,
    ) -> list[Hit]:
        """Return the wanted texts of a user nearest to a vector by cosine, equal ones newest first.

        The search is exact: the ranking is read further until enough texts pass ``keep``, or to its end.
        """
        if not any(query) or limit < 1:
            return []
        with self._lock:
            first = self._matrix.ranking(
                query, vectors.owner_of(self._secret, user), [corpus for corpus in corpora if corpus in CORPORA]
            )
        hits: list[Hit] = []
        looked, count = 0, 2 * limit
        while True:
            ranked = first(count)
            hits += self._current(connection, ranked[looked:], user, keep)
            if len(hits) >= limit or len(ranked) < count:
                return hits[:limit]
            looked, count = count, count * WIDENING

    def cosines(
        self, connection: sqlite3.Connection, query: bytes, user: str, corpus: str, rows: Sequence[int]
    ) -> dict[int, float]:
        """Return the cosines of those of these texts that have a vector."""
        if not any(query):
            return {}
        with self._lock:
            ranked = self._matrix.of(query, [(corpus, row) for row in rows])
        return {row: cosine for _, row, cosine in self._current(connection, ranked, user, None)}

    def cosines_among(
        self, connection: sqlite3.Connection, user: str, corpus: str, rows: Sequence[int]
    ) -> dict[tuple[int, int], float]:
        """Return the cosine of every two of these texts that have a vector, by their rows, the smaller first."""
        with self._lock:
            marks, cosines = self._matrix.among([(corpus, row) for row in sorted(rows)])
        current = {row for _, row, _ in self._current(connection, marks, user, None)}
        return {pair: cosine for pair, cosine in cosines.items() if current.issuperset(pair)}

    def _current(
        self, connection: sqlite3.Connection, ranked: Sequence[Ranked], user: str, keep: Keep | None
    ) -> list[Hit]:
        """Return the hits whose text is believed, belongs to this user, and is the text that the vector was made of."""
        right: set[tuple[str, int, bytes]] = set()
        for letter in dict.fromkeys(hit[0] for hit in ranked):
            rows: Collection[int] = [row for corpus, row, _, _ in ranked if corpus == letter]
            rows = rows if keep is None else keep(letter, list(rows))
            for text in vectors.texts(connection, letter, rows) if rows else ():
                if text.user == user:
                    right.add((letter, text.row, vectors.mark(self._secret, text.text)))
        return [(corpus, row, cosine) for corpus, row, cosine, mark in ranked if (corpus, row, mark) in right]


def _has(connection: sqlite3.Connection, id: int) -> bool:
    return connection.execute(f"SELECT 1 FROM main.{vectors.NAME} WHERE id = ?", (id,)).fetchone() is not None


# --- NumPy -----------------------------------------------------------------------------------------------------------


class Matrix:
    """All vectors as one matrix, a row for each. Deleted vectors stay, marked, until they are half of the matrix.

    ``add`` returns the keys of damaged vectors.
    """

    def __init__(self, numpy: ModuleType) -> None:
        self._numpy = numpy
        self.clear()

    def clear(self) -> None:
        numpy = self._numpy
        self._count = self._gone = 0
        self._data: Any = None
        self._ids, self._owners, self._rows = (numpy.zeros(0, dtype=numpy.int64) for _ in range(3))
        self._corpora = numpy.zeros(0, dtype=numpy.int16)
        self._alive = numpy.zeros(0, dtype=bool)
        self._marks: list[bytes] = []
        self._places: dict[Key, int] = {}

    def ids(self) -> set[int]:
        """Return the ids of the vectors that are in the file."""
        ids = self._ids[: self._count][self._alive[: self._count]]
        return set(ids[ids > 0].tolist())

    def add(self, entries: Sequence[VectorEntry]) -> list[Key]:
        if not entries:
            return []
        numpy = self._numpy
        new = numpy.frombuffer(b"".join(entry.vector for entry in entries), dtype="<f4").reshape(len(entries), -1)
        self.expect(len(entries), new.shape[1])
        start, end = self._count, self._count + len(entries)
        self._data[start:end] = new
        self._ids[start:end] = [entry.id for entry in entries]
        self._owners[start:end] = [entry.owner for entry in entries]
        self._rows[start:end] = [entry.row for entry in entries]
        self._corpora[start:end] = [ord(entry.corpus) for entry in entries]
        lengths = numpy.einsum("ij,ij->i", new, new, dtype=numpy.float64)
        sound = abs(lengths - 1) < vectors.ROUGHLY
        self._alive[start:end] = sound  # a vector of zeros is not alive: it is near nothing
        damaged = numpy.nonzero(~sound & (lengths != 0))[0].tolist()
        self._marks += [entry.text for entry in entries]
        for place, entry in enumerate(entries, start):
            older = self._places.get(entry.key)
            if older is not None:
                self._alive[older] = False
                self._gone += 1
            self._places[entry.key] = place
        self._count = end
        return [entries[place].key for place in damaged]

    def forget(self, gone: Collection[int]) -> list[Key]:
        keys: list[Key] = []
        count = self._count
        away = self._numpy.isin(self._ids[:count], list(gone)) & self._alive[:count]
        for place in self._numpy.nonzero(away)[0].tolist():
            self._alive[place] = False
            self._data[place] = 0
            self._gone += 1
            key = (chr(int(self._corpora[place])), int(self._rows[place]))
            if self._places.get(key) == place:
                del self._places[key]
                keys.append(key)
        return keys

    def expect(self, more: int, dimension: int) -> None:
        """Make room for more vectors. A reader's arrays stay as they are, because the arrays are replaced and not changed."""
        if self._gone > 1_000 and 2 * self._gone > self._count:
            self._compact()
        need = self._count + more
        if self._data is None or need > len(self._data):
            size = max(1_024, need + 1_024, len(self._ids) * 3 // 2)
            old, self._data = self._data, self._numpy.zeros((size, dimension), dtype=self._numpy.float32)
            if old is not None:
                self._data[: self._count] = old[: self._count]
            for name in ("_ids", "_owners", "_rows", "_corpora", "_alive"):
                array = getattr(self, name)
                wider = self._numpy.zeros(size, dtype=array.dtype)
                wider[: self._count] = array[: self._count]
                setattr(self, name, wider)

    def _compact(self) -> None:
        alive = self._numpy.nonzero(self._alive[: self._count])[0]
        for name in ("_data", "_ids", "_owners", "_rows", "_corpora", "_alive"):
            setattr(self, name, getattr(self, name)[alive])
        self._marks = [self._marks[place] for place in alive.tolist()]
        self._count, self._gone = len(alive), 0
        keys = zip(self._corpora.tolist(), self._rows.tolist(), strict=True)
        self._places = {(chr(corpus), row): place for place, (corpus, row) in enumerate(keys)}

    def ranking(self, query: bytes, owner: int, corpora: Sequence[str]) -> Ranking:
        numpy, count = self._numpy, self._count
        data, rows, letters, marks = self._data, self._rows, self._corpora, self._marks
        if not count:
            return lambda _: []
        chosen = self._alive[:count] & (self._owners[:count] == owner)
        if len(corpora) < len(CORPORA):
            chosen &= numpy.isin(letters[:count], [ord(corpus) for corpus in corpora])
        among = int(chosen.sum())
        computed: list[Any] = []

        def first(size: int) -> list[Ranked]:
            size = min(size, among)
            if not size:
                return []
            if not computed:  # computed here, outside of the lock
                computed.append(data[:count] @ numpy.frombuffer(query, dtype="<f4"))
                computed[0][~chosen] = -numpy.inf
            cosines = computed[0]
            least = numpy.partition(cosines, count - size)[count - size]
            places = numpy.nonzero(cosines >= least - 2 * 10**-DECIMALS)[0].tolist()
            ranked = [
                (chr(int(letters[place])), int(rows[place]), round(float(cosines[place]), DECIMALS), marks[place])
                for place in places
            ]
            return sorted(ranked, key=_order)[:size]

        return first

    def of(self, query: bytes, keys: Sequence[Key]) -> list[Ranked]:
        known = [(key, place) for key in keys if (place := self._places.get(key)) is not None and self._alive[place]]
        if not known:
            return []
        cosines = self._data[[place for _, place in known]] @ self._numpy.frombuffer(query, dtype="<f4")
        return [
            (*key, round(cosine, DECIMALS), self._marks[place])
            for (key, place), cosine in zip(known, cosines.tolist(), strict=True)
        ]

    def among(self, keys: Sequence[Key]) -> tuple[list[Ranked], dict[tuple[int, int], float]]:
        """Return the digests of those of these texts that have a vector, and the cosine of every two by their rows."""
        known = [(key, place) for key in keys if (place := self._places.get(key)) is not None and self._alive[place]]
        places, rows = [place for _, place in known], [row for (_, row), _ in known]
        if len(known) < 2:
            return [], {}
        matrix = self._data[places]
        table = (matrix @ matrix.T).tolist()
        cosines = {
            (rows[at], rows[to]): round(table[at][to], DECIMALS)
            for at in range(len(rows))
            for to in range(at + 1, len(rows))
        }
        return [(*key, 1.0, self._marks[place]) for key, place in known], cosines


def _order(ranked: Ranked) -> tuple[float, str, int]:
    return (-ranked[2], ranked[0], -ranked[1])


def matrix() -> Matrix | None:
    """Return an empty matrix, or None if NumPy is not installed."""
    with suppress(ImportError):
        return Matrix(importlib.import_module("numpy"))
    return None
