"""The namespace ``ledger.projections``: the tables of projections of your own."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import cast

from ledger.core.area import LIMIT, Area, of_all, page
from ledger.core.engine import Engine
from ledger.domain.errors import NotFoundError
from ledger.log.reading import read_tip
from ledger.projections.answers import OwnProjection
from ledger.projections.reading import definition_of, reading
from ledger.types import Page
from projections.core import own_registry as registry
from projections.core.own import R


class ProjectionsRead(Area):
    """The projections of your own, now or at a moment."""

    def list(self, *, limit: int = LIMIT, after: str | None = None) -> Page[OwnProjection]:
        """List every projection of your own in this file; in the past, those that the ledger was opened with.

        The list includes projections whose class is not open. Listing does not catch up any projection.
        """
        listed = of_all(self._all(), lambda projection: projection.name)
        return page("projections.list", {}, limit, after, listed, lambda projection: projection.name)

    def _all(self) -> Sequence[OwnProjection]:
        opened = self._engine.own.definitions if self._engine.own is not None else {}
        apart = set(opened)
        live = isinstance(self._engine, Engine)
        if isinstance(self._engine, Engine):  # the file holds the tables, unless it is read-only and lacks them
            with self._engine.reading() as connection:
                apart = apart - {*registry.entries(connection)} if self._engine.store.readonly else set()
        with reading(self._engine, apart) as connection:
            position, _ = read_tip(connection.cursor())
            entries = registry.entries(connection) if live else {}
            projections = []
            for name in sorted({*entries, *apart}):
                entry, definition = entries.get(name), opened.get(name)
                tables = entry.tables if entry is not None else [table.name for table in opened[name].tables]
                projections.append(
                    OwnProjection(
                        name=name,
                        version=entry.version if entry is not None else opened[name].version,
                        position=entry.position if entry is not None else position,
                        behind=position - entry.position if entry is not None else 0,
                        is_open=definition is not None and (entry is None or entry.fits(definition)),
                        suspended_at=entry.suspended_at if entry is not None else None,
                        error=entry.error if entry is not None else None,
                        tables={table: registry.count(connection, table) for table in tables},
                    )
                )
        return projections

    def get(self, name: str) -> OwnProjection:
        """Return the state of a projection of your own.

        Args:
            name: The name of the projection.

        Raises:
            NotFoundError: This file has no projection of your own with that name.
        """
        listed = self._all()
        match = next((projection for projection in listed if projection.name == name), None)
        if match is None:
            known = ", ".join(projection.name for projection in listed) or "none"
            raise NotFoundError(f"no projection of your own is called {name!r:.60}; this ledger has: {known}")
        return match

    def rows(self, table: type[R], *, limit: int = LIMIT, after: str | None = None, **equal: object) -> Page[R]:
        """List rows of a table of your own, in the order of their keys; the projection is caught up first.

        Args:
            table: The class of the rows, from a projection that this ledger was opened with.
            equal: Values of columns, as in ``person="ada"``: only the rows with these values.

        Raises:
            RejectedError: No projection of this ledger has rows of that class, or the class has no such column.
            SuspendedError: The projection's fold raised; ``maintenance.rebuild`` with its name begins again.
            ConflictError: Another process opened the file with another version of the class.
        """
        definition = definition_of(self._engine, table)
        shape = definition.shape(table)
        columns, values = shape.equal(equal)
        key = ", ".join(shape.table.key)
        where = [f"{column} IS ?" for column in columns]

        def fetch(count: int, start: str | None) -> Sequence[R]:
            last_key = shape.opened(start) if start is not None else ()
            behind = [f"({key}) > ({', '.join('?' * len(last_key))})"] if last_key else []
            condition = " AND ".join([*where, *behind]) or "1"
            names = ", ".join(f'"{name}"' for name in shape.order)
            sql = f"SELECT {names} FROM {shape.table.name} WHERE {condition} ORDER BY {key} LIMIT ?"
            with reading(self._engine, (definition.name,)) as connection:
                rows = connection.execute(sql, (*values, *last_key, count)).fetchall()
            return [cast("R", shape.decode(row)) for row in rows]

        filters = {"table": shape.table.name, "equal": json.dumps(equal, default=str)}
        return page("projections.rows", filters, limit, after, fetch, shape.cursor)
