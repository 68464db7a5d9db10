"""Every event that can be recorded, with its text fields and its envelope: the storage format, one file a stream.

A released event only gains fields with defaults, or gets an upcaster in ``ledger.log.registry``. The name of a class is the
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

from ledger.documents.events import *  # noqa: F403
from ledger.interactions.events import *  # noqa: F403
from ledger.log.envelope import *  # noqa: F403
from ledger.log.events import *  # noqa: F403  # noqa: F403
from ledger.log.registry import *  # noqa: F403
from ledger.memories.events import *  # noqa: F403
from ledger.observations.events import *  # noqa: F403
from ledger.projects.events import *  # noqa: F403
from ledger.review.events import *  # noqa: F403
from ledger.sessions.events import *  # noqa: F403
from ledger.values.events import *  # noqa: F403
