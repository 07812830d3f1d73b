"""Errors: one tree of classes (`tree`), one table of what each is on every wire (`wire`).

Everyone imports from here, so that where a class is written stays this package's affair.
"""

from goqueue.errors.tree import *  # noqa: F403  (a list of every class here would be a second table to keep)
from goqueue.errors.wire import Wire as Wire
from goqueue.errors.wire import wire_of as wire_of
