"""The language model as a part of the library door: asking it, and which calls there were."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from ledger.domain.errors import Rejected
from ledger.language.asking import Asked, Cancelled, ask, check_outside
from ledger.language.port import LanguageModel, Request, as_model
from ledger.reads import LIST_LIMIT, Reads, listed
from projections import calls, projects


class ModelCall(Struct, frozen=True, kw_only=True):
    """One call of a language model, answered (``ok``) or failed with an ``error`` in one word. Its actions, kept and dropped,
    are in the audit trail at its position."""

    position: int
    purpose: str
    model: str | None
    prompt: str
    ok: bool
    error: str | None
    status: int | None
    input_tokens: int
    output_tokens: int
    attempts: int
    milliseconds: int
    kept: int
    dropped: int
    left_over: int
    user: str | None
    project: str | None
    session_id: str | None
    recorded_at: str
    in_force: bool


class ModelReads(Reads):
    """What can be asked about the calls, of a moment too."""

    def model_calls(
        self, *, user: str | None = None, purpose: str | None = None, limit: int = LIST_LIMIT
    ) -> list[ModelCall]:
        """The calls of language models for a user, newest first; ``purpose`` is one ("extraction", "summary", …). At most
        500. A call that failed is among them, and so is one whose command was undone."""
        with self._read("model_calls", "projects") as connection:
            found = calls.listing(connection, self._user(user), purpose or None, listed(limit))
            names = projects.names(connection, (each for call in found for each in (call.project, call.session)))
            return [_shown(each, names) for each in found]


class Language(ModelReads):
    """Asking the model that the ledger was opened with."""

    _model: LanguageModel | None = None

    def _asked(self, request: Request, *, model: Any = None, cancelled: Cancelled | None = None) -> Asked:
        """The answer of a model, or of the ledger's own; ``Rejected`` where there is none, and under the writer's lock."""
        meant = self._meant_model(model)
        if meant is None:
            raise Rejected("this asks a model: open the ledger with one, or give one here", rule="model")
        check_outside(self._writer)
        return ask(meant, request, cancelled=cancelled)

    def _meant_model(self, given: Any = None) -> LanguageModel | None:
        return self._model if given is None else as_model(given)


def _shown(call: calls.Call, names: dict[str, str]) -> ModelCall:
    told = {name: getattr(call, name) for name in calls.Call.__struct_fields__ if name in ModelCall.__struct_fields__}
    return ModelCall(
        **told | {"project": names.get(call.project or "", call.project)},
        ok=call.error is None,
        session_id=names.get(call.session or "", call.session),
        in_force=call.undone_at is None,
    )
