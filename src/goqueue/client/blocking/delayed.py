"""Delayed and recurring messages without `await`."""

from __future__ import annotations

from goqueue.client.admin import delayed
from goqueue.client.blocking.calls import Blocking, blocking


class DelayedMessages(Blocking[delayed.DelayedMessages]):
    """`client.delayed`: messages that are not due yet."""

    list = blocking(delayed.DelayedMessages.list)
    get = blocking(delayed.DelayedMessages.get)
    cancel = blocking(delayed.DelayedMessages.cancel)
    reschedule = blocking(delayed.DelayedMessages.reschedule)
    now = blocking(delayed.DelayedMessages.now)
    stats = blocking(delayed.DelayedMessages.stats)


class Schedules(Blocking[delayed.Schedules]):
    """`client.schedules`: recurring messages."""

    create = blocking(delayed.Schedules.create)
    list = blocking(delayed.Schedules.list)
    get = blocking(delayed.Schedules.get)
    delete = blocking(delayed.Schedules.delete)
