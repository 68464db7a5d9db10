"""The day's account of commands as models: how many calls and tokens the log has of today, in UTC."""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec import Struct

from ledger.care.answers import Finding
from ledger.core.call import now, stored_time
from ledger.core.engine import Engine
from ledger.core.settings import Settings
from ledger.domain.errors import RejectedError
from ledger.models.port import COMMAND, DAY_EXHAUSTED, CommandFailed, Model
from projections.core.rows import Connection
from projections.views import calls


class DayBounds(Struct, frozen=True):
    """The most calls and tokens of commands on a day, such as "2026-06-01", or None where no command is the model."""

    today: str
    calls: int | None = None
    tokens: int | None = None

    @property
    def end(self) -> str:
        """Return the midnight that ends the day, as a stored time."""
        return f"{datetime.fromisoformat(self.today).date() + timedelta(days=1)}T00:00:00.000000Z"

    def are_reached(self, calls: int, tokens: int) -> bool:
        return self.calls is not None and self.tokens is not None and (calls >= self.calls or tokens >= self.tokens)


def bounds_of(engine: Engine, model: Model | None) -> DayBounds:
    """Return the bounds of today for a model, by the clock of the ledger."""
    today = engine.now()[:10]
    if model is None or not model.name.startswith(COMMAND):
        return DayBounds(today)
    from ledger.models.command import CommandModel  # what it imports is slow to load

    return DayBounds(today, model.calls, model.tokens) if isinstance(model, CommandModel) else DayBounds(today)


def bounds_by_settings(settings: Settings | None) -> DayBounds:
    """Return the bounds of today for a file that is not open, by the clock of the machine."""
    today = stored_time(now())[:10]
    if settings is not None and not isinstance(settings, Settings):
        raise RejectedError(f"settings must be a Settings from Settings.load(), not a {type(settings).__name__}")
    if settings is None or settings.model_command is None:
        return DayBounds(today)
    return DayBounds(today, settings.model_command_calls, settings.model_command_tokens)


def findings(connection: Connection, bounds: DayBounds) -> list[Finding]:
    """Return what the doctor says of the day's account; nothing if there is neither a command nor a call of one."""
    made, tokens = calls.used_since(connection, COMMAND, bounds.today)
    if bounds.calls is None:
        text = f"{made:,} calls and about {tokens:,} tokens today (UTC)"
        return [Finding(level="ok", what="model command", found=text)] if made else []
    text = f"{made:,} of {bounds.calls:,} calls and about {tokens:,} of {bounds.tokens:,} tokens today (UTC)"
    if not bounds.are_reached(made, tokens):
        return [Finding(level="ok", what="model command", found=text)]
    hint = f"it goes on at {bounds.end[:16]}Z; the settings model_command_calls and model_command_tokens are the bounds"
    return [Finding(level="warning", what="model command", found=f"{text}: the day is used up", hint=hint)]


def used_up_until(engine: Engine, model: Model | None) -> str:
    """Return when a command may be called again, if its calls or tokens of today are used up; else "".

    A call under way is not counted yet, so the last calls of a day may go beyond the bound.
    """
    if model is None or not model.name.startswith(COMMAND):
        return ""
    bounds = bounds_of(engine, model)
    with engine.reading() as connection:
        used = calls.used_since(connection, COMMAND, bounds.today)
    return bounds.end if bounds.are_reached(*used) else ""


def check_day(engine: Engine, model: Model) -> None:
    """Raise ModelError, of the kind "DayExhausted", if a command has used up its calls or tokens of today."""
    if until := used_up_until(engine, model):
        wait = datetime.fromisoformat(until) - datetime.fromisoformat(engine.now())
        raise CommandFailed(
            f"the model {model.name!r:.60} has used up its day, and goes on at {until[:16]}Z; the bounds of a day are the"
            " settings model_command_calls and model_command_tokens, and memory-ledger doctor shows what is left",
            kind=DAY_EXHAUSTED,
            retry_after=wait.total_seconds(),
            attempts=0,
        )
