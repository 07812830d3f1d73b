"""The error tree: what can go wrong, as classes whose instances are values with fields.

Each area of the broker has its file. A class added to one wants a row in `goqueue.errors.wire`,
unless its parent's row says enough.
"""

# ruff: noqa: F403  (a list of every class here would be a second table to keep)

from goqueue.errors.base import *
from goqueue.errors.delivery import *
from goqueue.errors.groups import *
from goqueue.errors.messages import *
from goqueue.errors.node import *
from goqueue.errors.producers import *
from goqueue.errors.schemas import *
from goqueue.errors.security import *
from goqueue.errors.topics import *
