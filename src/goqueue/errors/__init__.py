"""Errors: one tree of classes (`tree`, by area), one table of what each is on every wire (`wire`).

Everyone imports from here, so that where a class is written stays this package's affair.
"""

from goqueue.errors.tree import *  # noqa: F403
from goqueue.errors.wire import Wire as Wire
from goqueue.errors.wire import wire_of as wire_of
from goqueue.errors.wire import wire_of_code as wire_of_code
