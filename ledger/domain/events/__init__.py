"""Every fact that can be recorded, its text fields, and the envelope around it: the storage format, one file a stream.

A released event only ever gains fields with defaults, or gets an upcaster in ``ledger.store.mapper``. The name of a class is the
name in the log, so renaming a class is changing the format. Every string field says what it is: ``Text`` is something a
person or a model wrote and erasure may remove, so that it is null; ``Code`` is a word from our own vocabulary; ``Id`` names
a subject, an event or a command; ``Time`` is fixed-width UTC; ``Digest`` is a hash of bytes of the log. Confidences and
deltas are integers of one millionth.

What undo, distrust, erasure, the guards and the policies have to know of an event stands with it: its ``Traits``, a ``Ref`` on
each id, a ``Use`` on a text that has one. They ask for it by ``of``, ``ids_in`` and ``used_as``, and none of it is
stored. So a new event is its class here, its case in the decider of its subject, and the projections that show it.
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
