"""``ledger.projections``: the tables of projections of your own."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import cast

from ledger.domain.errors import NotFoundError
from ledger.engine.area import Area
from ledger.engine.paging import LIMIT, of_all, page
from ledger.projections.answers import OwnProjection
from ledger.projections.reading import definition_of, reading
from ledger.store.reading import read_tip
from ledger.types import Page
from projections.core import own_registry as registry
from projections.core.own import R


class ProjectionsRead(Area):
    """Projections of your own, now or at a moment."""

    def list(self, *, limit: int = LIMIT, after: str | None = None) -> Page[OwnProjection]:
        """List every projection of somebody's own in this file, also those whose class is not at hand; of the past those at hand.

        Nothing is caught up by that.
        """
        found = self._all()
        return page("projections.list", {}, limit, after, of_all(found, lambda each: each.name), lambda each: each.name)

    def _all(self) -> Sequence[OwnProjection]:
        given = self._engine.own.definitions if self._engine.own is not None else {}
        apart = set(given)
        if not self._engine.is_past:  # the file has it, but for what cannot be written to it
            with self._engine.reading() as connection:
                apart = apart - {*registry.entries(connection)} if self._engine.store.readonly else set()
        with reading(self._engine, apart) as connection:
            position, _ = read_tip(connection.cursor())
            found = {} if self._engine.is_past else registry.entries(connection)
            made = []
            for name in sorted({*found, *apart}):
                entry, wanted = found.get(name), given.get(name)
                tables = entry.tables if entry is not None else [table.name for table in given[name].tables]
                made.append(
                    OwnProjection(
                        name=name,
                        version=entry.version if entry is not None else given[name].version,
                        position=entry.position if entry is not None else position,
                        behind=position - entry.position if entry is not None else 0,
                        is_open=wanted is not None and (entry is None or entry.fits(wanted)),
                        suspended_at=entry.suspended_at if entry is not None else None,
                        error=entry.error if entry is not None else None,
                        tables={table: registry.count(connection, table) for table in tables},
                    )
                )
        return made

    def get(self, name: str) -> OwnProjection:
        """Return where one of them stands.

        Args:
            name: Its name.

        Raises:
            NotFoundError: This file has none of the name.
        """
        listed = self._all()
        found = next((each for each in listed if each.name == name), None)
        if found is None:
            known = ", ".join(each.name for each in listed) or "there is none"
            raise NotFoundError(f"no projection of one's own is called {name!r:.60}; this ledger has: {known}")
        return found

    def rows(self, table: type[R], *, limit: int = LIMIT, after: str | None = None, **equal: object) -> Page[R]:
        """List rows of a table of your own, in the order of their keys; what is missing is caught up first.

        Args:
            table: The class of the rows, of a projection that this ledger was opened with.
            equal: Values of columns, as in ``person="ada"``: only the rows that have them.

        Raises:
            RejectedError: The class is none of a projection of this ledger, or has no such column.
            SuspendedError: Its fold raised; ``maintenance.rebuild`` with its name begins again.
            ConflictError: Another process opened the file with another version of the class.
        """
        wanted = definition_of(self._engine, table)
        shape = wanted.shape(table)
        columns, values = shape.equal(equal)
        key = ", ".join(shape.table.key)
        where = [f"{column} IS ?" for column in columns]

        def fetch(count: int, start: str | None) -> Sequence[R]:
            after_it = shape.opened(start) if start is not None else ()
            behind = [f"({key}) > ({', '.join('?' * len(after_it))})"] if after_it else []
            condition = " AND ".join([*where, *behind]) or "1"
            names = ", ".join(f'"{name}"' for name in shape.order)
            sql = f"SELECT {names} FROM {shape.table.name} WHERE {condition} ORDER BY {key} LIMIT ?"
            with reading(self._engine, (wanted.name,)) as connection:
                found = connection.execute(sql, (*values, *after_it, count)).fetchall()
            return [cast("R", shape.decode(row)) for row in found]

        filters = {"table": shape.table.name, "equal": json.dumps(equal, default=str)}
        return page("projections.rows", filters, limit, after, fetch, shape.cursor)
