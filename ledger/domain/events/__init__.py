"""Every event that can be recorded, with its text fields and its envelope: the storage format, one file a stream.

A released event only gains fields with defaults, or gets an upcaster in ``ledger.store.mapper``. The name of a class is the
event's name in the log, so a renamed class changes the format. Every string field declares its use:

- ``Text`` was written by a person or a model; an erasure may remove the text, which is null then.
- ``Code`` is a word from the product's own vocabulary.
- ``Id`` names a subject, an event or a command.
- ``Time`` is UTC of fixed width.
- ``Digest`` is a hash of bytes of the log.

Confidences and deltas are integers in millionths.

Undo, distrust, erasure, the guards and the policies know an event by declarations beside its fields: its ``Traits``, a
``Ref`` on each id, and a ``Use`` on some texts. They look these up by ``of``, ``ids_in`` and ``used_as``, and none of the
declarations is stored. So a new event needs its class here, its case in the decider of its subject, and the projections that
show it.
"""

from ledger.domain.events.base import *  # noqa: F403
from ledger.domain.events.document import *  # noqa: F403
from ledger.domain.events.envelope import *  # noqa: F403
from ledger.domain.events.interaction import *  # noqa: F403
from ledger.domain.events.ledger import *  # noqa: F403
from ledger.domain.events.memory import *  # noqa: F403
from ledger.domain.events.merge import *  # noqa: F403
from ledger.domain.events.observation import *  # noqa: F403
from ledger.domain.events.project import *  # noqa: F403
from ledger.domain.events.registry import *  # noqa: F403
from ledger.domain.events.session import *  # noqa: F403
from ledger.domain.events.value import *  # noqa: F403
