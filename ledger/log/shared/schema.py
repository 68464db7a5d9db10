"""The tables of shared logs in PostgreSQL: the schema ``ledger``, its triggers and its row security.

The rules of a ledger's file hold here too (``SCHEMA`` in ``log/sqlite_files.py``). Row security shows a transaction the rows of
the tenant that ``ledger.tenant`` names, and no rows without a tenant. It is forced, so that the owner of the tables sees no
more than others, until an application has a role of its own: then the owner sees all, and can dump the tables. A superuser
always sees all, so an application needs a role that is none.
"""

from __future__ import annotations

import re
from hashlib import sha256

from ledger.domain.errors import RejectedError

FORMAT = 2  # that ``prepare`` makes; earlier formats are written to as well
PARTITIONS = 32  # of the events and of the blobs; VACUUM after an erasure takes one of them
CHANNEL = "ledger"  # on which each commit names its tenant
OLDEST = 15  # the oldest version of PostgreSQL on which this runs
LONGEST_TENANT = 100  # characters

_PARTITIONED = ("events", "blobs")
_TABLES = ("logs", *_PARTITIONED, "replicas", "leases")
_PARTITIONS = tuple(f"{table}_{number:02d}" for table in _PARTITIONED for number in range(PARTITIONS))
_OWN = "tenant = current_setting('ledger.tenant', true)"

_TABLES_SQL = """
CREATE TABLE ledger.format (version integer NOT NULL, made timestamptz NOT NULL DEFAULT now());
CREATE TABLE ledger.logs (
    tenant text COLLATE "C" PRIMARY KEY, position bigint NOT NULL, head bytea NOT NULL
) WITH (fillfactor = 50);
CREATE TABLE ledger.events (
    tenant text COLLATE "C" NOT NULL, position bigint NOT NULL, stream text COLLATE "C" NOT NULL, version bigint NOT NULL,
    type text COLLATE "C" NOT NULL, state text COLLATE "C" NOT NULL, digest bytea NOT NULL, head bytea NOT NULL, key bytea,
    erased_by bigint, PRIMARY KEY (tenant, position), UNIQUE (tenant, stream, version)
) PARTITION BY HASH (tenant);
CREATE INDEX events_erasures ON ledger.events (tenant, position) WHERE type = 'ContentErased';
CREATE TABLE ledger.blobs (
    tenant text COLLATE "C" NOT NULL, id text COLLATE "C" NOT NULL, position bigint NOT NULL, data bytea, erased_by bigint,
    PRIMARY KEY (tenant, id)
) PARTITION BY HASH (tenant);
CREATE INDEX blobs_positions ON ledger.blobs (tenant, position);
CREATE TABLE ledger.replicas (
    tenant text COLLATE "C" NOT NULL, machine text COLLATE "C" NOT NULL, position bigint NOT NULL,
    erased_through bigint NOT NULL, seen timestamptz NOT NULL, forgotten text, PRIMARY KEY (tenant, machine)
);
CREATE TABLE ledger.leases (
    tenant text COLLATE "C" NOT NULL, work text COLLATE "C" NOT NULL, holder text NOT NULL, until timestamptz NOT NULL,
    PRIMARY KEY (tenant, work)
);
"""

# A function for each rule. Each statement that appends is checked once, whatever the number of its rows, and moves the end
# of the log, which nothing else may move.
_RULES_SQL = """
CREATE FUNCTION ledger.events_follow() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE moved bigint;
BEGIN
    UPDATE ledger.logs SET position = part.last, head = part.head FROM (
        SELECT tenant, min(position) AS first, max(position) AS last, count(*) AS number,
            (array_agg(added.head ORDER BY position DESC))[1] AS head FROM added GROUP BY tenant
    ) AS part
    WHERE logs.tenant = part.tenant AND part.first = logs.position + 1 AND part.last = logs.position + part.number;
    GET DIAGNOSTICS moved = ROW_COUNT;
    IF moved <> (SELECT count(DISTINCT tenant) FROM added)
    THEN RAISE EXCEPTION 'an event takes the position after the last' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NULL;
END $$;
CREATE FUNCTION ledger.stays() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'a row of the table % is never deleted', TG_ARGV[0] USING ERRCODE = 'integrity_constraint_violation';
END $$;
CREATE FUNCTION ledger.is_erasure(at bigint, of text) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (SELECT FROM ledger.events WHERE tenant = of AND position = at AND type = 'ContentErased')
$$;
CREATE FUNCTION ledger.events_change_by_erasure_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.tenant <> OLD.tenant OR NEW.position <> OLD.position OR NEW.stream <> OLD.stream OR NEW.version <> OLD.version
        OR NEW.type <> OLD.type OR NEW.digest <> OLD.digest OR NEW.head <> OLD.head
        OR NEW.key IS DISTINCT FROM OLD.key OR NEW.erased_by IS NULL
        OR NOT ledger.is_erasure(NEW.erased_by, NEW.tenant)
    THEN RAISE EXCEPTION 'an event changes only in its state, by an erasure that is named'
        USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE FUNCTION ledger.blobs_change_by_erasure_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.tenant <> OLD.tenant OR NEW.id <> OLD.id OR NEW.position <> OLD.position OR NEW.data IS NOT NULL
        OR NEW.erased_by IS NULL OR NOT ledger.is_erasure(NEW.erased_by, NEW.tenant)
    THEN RAISE EXCEPTION 'a blob is only emptied, by an erasure that is named'
        USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE FUNCTION ledger.logs_end_at_their_last_event() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF NEW.position <> 0 OR NEW.head <> decode(repeat('00', 32), 'hex')
        THEN RAISE EXCEPTION 'a new log is empty' USING ERRCODE = 'integrity_constraint_violation';
        END IF;
    ELSIF pg_trigger_depth() < 2  -- not from events_follow
    THEN RAISE EXCEPTION 'a log ends at its last event' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER events_follow AFTER INSERT ON ledger.events REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION ledger.events_follow();
CREATE TRIGGER events_change_by_erasure_only BEFORE UPDATE ON ledger.events
    FOR EACH ROW EXECUTE FUNCTION ledger.events_change_by_erasure_only();
CREATE TRIGGER blobs_change_by_erasure_only BEFORE UPDATE ON ledger.blobs
    FOR EACH ROW EXECUTE FUNCTION ledger.blobs_change_by_erasure_only();
CREATE TRIGGER logs_end_at_their_last_event BEFORE INSERT OR UPDATE ON ledger.logs
    FOR EACH ROW EXECUTE FUNCTION ledger.logs_end_at_their_last_event();
"""
# The statements that raise a format by one, and those that take it back. Version 2 checks what an erasure covers, and refuses to
# read a partition by its own name, which was empty before.
_RAISES: dict[int, tuple[str, str]] = {
    2: (
        """
CREATE FUNCTION ledger.events_covered() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (
        SELECT FROM changed WHERE NOT EXISTS (
            SELECT FROM ledger.events AS e, jsonb_array_elements(CASE  -- whose condition is tested before the cast
                WHEN e.tenant = changed.tenant AND e.position = changed.erased_by AND e.type = 'ContentErased'
                THEN e.state::jsonb #> '{data,targets}' END) AS target
            WHERE e.tenant = changed.tenant AND e.position = changed.erased_by
                AND (target ->> 'position')::bigint = changed.position
                AND target ->> 'after' = encode(sha256(convert_to(changed.state, 'UTF8')), 'hex')
        )
    ) THEN RAISE EXCEPTION 'an erasure changes only the events that it covers, as it says'
        USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NULL;
END $$;
CREATE FUNCTION ledger.blobs_covered() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (
        SELECT FROM changed WHERE NOT EXISTS (
            SELECT FROM ledger.events AS e WHERE e.tenant = changed.tenant AND e.position = changed.erased_by AND CASE
                WHEN e.tenant = changed.tenant AND e.position = changed.erased_by AND e.type = 'ContentErased'
                THEN e.state::jsonb #> '{data,blobs}' ? changed.id END
        )
    ) THEN RAISE EXCEPTION 'an erasure empties only the blobs that it covers'
        USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER events_covered AFTER UPDATE ON ledger.events REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION ledger.events_covered();
CREATE TRIGGER blobs_covered AFTER UPDATE ON ledger.blobs REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION ledger.blobs_covered();
CREATE FUNCTION ledger.by_its_table() RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'a partition is read by its table, and dumped by an owner whom row security does not bind'
        USING ERRCODE = 'insufficient_privilege';
END $$;
"""
        + "\n".join(
            f"CREATE POLICY by_its_table ON ledger.{name} USING (ledger.by_its_table());" for name in _PARTITIONS
        ),
        "DROP FUNCTION ledger.events_covered, ledger.blobs_covered, ledger.by_its_table CASCADE;",
    ),
}
_KEPT = """
CREATE TRIGGER {table}_stay BEFORE DELETE ON ledger.{table} FOR EACH ROW EXECUTE FUNCTION ledger.stays('{table}');
CREATE TRIGGER {table}_stay_all BEFORE TRUNCATE ON ledger.{table}
    FOR EACH STATEMENT EXECUTE FUNCTION ledger.stays('{table}');
"""
_SECURED = """
ALTER TABLE ledger.{table} ENABLE ROW LEVEL SECURITY;
ALTER TABLE ledger.{table} FORCE ROW LEVEL SECURITY;
"""


def schema_sql() -> str:
    """Return the statements that make the schema, to be run in one transaction."""
    parts = ["CREATE SCHEMA IF NOT EXISTS ledger;", _TABLES_SQL]
    for name in _PARTITIONS:
        table, _, number = name.rpartition("_")
        parts.append(
            f"CREATE TABLE ledger.{name} PARTITION OF ledger.{table}"
            f" FOR VALUES WITH (MODULUS {PARTITIONS}, REMAINDER {int(number)});"
        )
    parts.append(_RULES_SQL)
    parts += [_KEPT.format(table=table) for table in ("logs", *_PARTITIONED)]
    parts += [_SECURED.format(table=name) for name in (*_TABLES, *_PARTITIONS)]
    parts += [f"CREATE POLICY own ON ledger.{table} USING ({_OWN}) WITH CHECK ({_OWN});" for table in _TABLES]
    parts.append("INSERT INTO ledger.format (version) VALUES (1);")
    return "\n".join(parts)


def moves_sql(there: int, version: int) -> str:
    """Return the statements that move the tables from one format to another; both directions end with its number."""
    if version > there:
        return "\n".join(
            f"{_RAISES[step][0]} INSERT INTO ledger.format (version) VALUES ({step});"
            for step in range(there + 1, version + 1)
        )
    return "\n".join(
        f"{_RAISES[step][1]} DELETE FROM ledger.format WHERE version = {step};" for step in range(there, version, -1)
    )


def unforced_sql() -> str:
    """Return the statements after which row security binds every role but the owner of the tables."""
    return "\n".join(f"ALTER TABLE ledger.{name} NO FORCE ROW LEVEL SECURITY;" for name in (*_TABLES, *_PARTITIONS))


def grants_sql(role: str, server_version: int) -> str:
    """Return the statements that let a role work with the tables; ``role`` is quoted already."""
    statements = [
        f"GRANT USAGE ON SCHEMA ledger TO {role};",
        f"GRANT SELECT, INSERT, UPDATE ON {', '.join(f'ledger.{table}' for table in _TABLES)} TO {role};",
        f"GRANT DELETE ON ledger.replicas, ledger.leases TO {role};",
        f"GRANT SELECT ON ledger.format TO {role};",
    ]
    if server_version >= 170000:  # before, VACUUM is its owner's alone
        statements.append(f"GRANT MAINTAIN ON {', '.join(f'ledger.{name}' for name in _PARTITIONS)} TO {role};")
    return "\n".join(statements)


def only_sql(role: str, tenant_literal: str) -> str:
    """Return the statements that bind a role to one tenant, whatever its transactions name; ``role`` is quoted already.

    A restrictive policy holds besides the policy that everybody has.
    """
    own, name = f"tenant = {tenant_literal}", f"only_{sha256(role.encode()).hexdigest()[:16]}"
    return "\n".join(
        f"DROP POLICY IF EXISTS {name} ON ledger.{table};"
        f" CREATE POLICY {name} ON ledger.{table} AS RESTRICTIVE TO {role} USING ({own}) WITH CHECK ({own});"
        for table in _TABLES
    )


def checked_tenant(tenant: str) -> str:
    """Return the name of a tenant, or raise ``RejectedError``."""
    if not 0 < len(tenant) <= LONGEST_TENANT or not tenant.isprintable() or tenant != tenant.strip():
        raise RejectedError(
            f"the tenant {tenant[:40]!r} was asked for; a tenant's name has 1 to {LONGEST_TENANT} printable characters"
            " without space around them",
            rule="tenant",
        )
    return tenant


def view_of(tenant: str) -> str:
    """Return the name of a tenant's view in the schema ``ledger``, which is also the channel of its notices."""
    if re.fullmatch(r"[a-z][a-z0-9_]{0,50}", tenant) and not tenant.startswith("tenant_"):
        return f"{tenant}_events"
    return f"tenant_{sha256(tenant.encode()).hexdigest()[:32]}_events"


def view_sql(view: str, tenant_literal: str) -> str:
    """Return the statement that makes a tenant's view, with the columns of the eventsourcing library's table.

    The view is a barrier: a condition that a reader adds sees no row of another tenant.
    """
    return (
        f'CREATE OR REPLACE VIEW ledger."{view}" WITH (security_barrier) AS SELECT stream AS originator_id,'
        " version AS originator_version, type AS topic, convert_to(state, 'UTF8') AS state, position AS notification_id"
        f" FROM ledger.events WHERE tenant = {tenant_literal};"
    )
