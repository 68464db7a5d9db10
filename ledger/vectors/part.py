"""The place of the vector search in an open ledger. The search itself is loaded only for a ledger with an embedder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ledger.domain.parts import LedgerPart

if TYPE_CHECKING:
    from ledger.vectors.embedding import VectorSearch

SEARCH: LedgerPart[VectorSearch] = LedgerPart("vectors", for_reads=True)
