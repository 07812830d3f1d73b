"""Fault profiles: which faults a run of the simulated cluster prefers, how often they come, and what the store does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from goqueue.testing.kv_model import KvFaults


@dataclass(frozen=True)
class Profile:
    """Which faults a run prefers: how often each is chosen, how long to wait between two, and what the store does."""

    weights: Mapping[str, int]
    pause_s_max: float
    kv_faults: KvFaults
    # Whether nodes are mostly lost when it hurts: while something is on its way to followers, while the in-sync
    # replicas change, or right after an election.
    is_timed: bool = False
    # Whether clients are silent now and then, so that leaders come and go without having written anything.
    is_bursty: bool = False
    # Whether a batch that is stored already is believed to have its slot: so it is if nothing written is ever lost.
    trusts_repeats: bool = False
    # How many of the batches have a slot.
    slots: float = 0.2


_ALL = {
    "kill": 3,
    "power_cut": 4,
    "freeze": 2,
    "cut_off": 2,
    "one_way": 2,
    "slow_link": 1,
    "broken_connection": 2,
    "moved_leader": 2,
    "full_disk": 1,
    "failed_sync": 1,
    "lost_disk": 2,
}
_LOSSY = KvFaults(lost_call=0.03, lost_reply=0.03, late=0.02, watch_broken=0.02, delay_s_max=0.01)
_SLOW = KvFaults(lost_call=0.05, lost_reply=0.1, late=0.05, delay_s_max=0.4)

MIXED = Profile(_ALL, 1.5, _LOSSY)
# The same, and more.
WIDE = Profile({**_ALL, "no_store": 2, "slow_disk": 3, "clock_step": 1}, 1.2, _LOSSY)
# One election after the other.
ELECTIONS = Profile({"moved_leader": 12, "kill": 3, "power_cut": 3, "broken_connection": 2, "one_way": 2}, 0.4, _LOSSY)
# Changes of the in-sync replicas take long, and meanwhile nodes and disks are lost.
UNSURE = Profile({"kill": 4, "power_cut": 6, "lost_disk": 6, "moved_leader": 3, "cut_off": 1}, 1.0, _SLOW)
# Leaders are replaced without knowing it, or with a tail that nobody has, and write little.
ZOMBIES = Profile(
    {"no_store": 6, "lone_leader": 6, "moved_leader": 4, "kill": 2, "power_cut": 2, "one_way": 2},
    0.8,
    _LOSSY,
    is_bursty=True,
)
# Nodes go at the worst moment.
TIMED = Profile(
    {"kill": 6, "power_cut": 6, "lost_disk": 6, "moved_leader": 3, "slow_disk": 2, "slow_link": 2},
    0.6,
    _SLOW,
    is_timed=True,
)
# Replicas that are behind join while changes of the in-sync replicas take long and clients write in bursts.
JOINERS = Profile(
    {"slow_joiner": 8, "lost_disk": 4, "kill": 2, "moved_leader": 2}, 0.8, _SLOW, is_timed=True, is_bursty=True
)
# Replicas are late from the moment at which they join, while that takes long and clients go on writing.
LATE_JOINERS = Profile({"late_joiner": 6, "kill": 3, "power_cut": 1, "moved_leader": 1}, 0.8, _SLOW)
# Leaders are killed while records and their slots are on their way to followers. For mutants: logs of a family are not
# cut in one step, so a replica that is elected in the middle of it has a record without its slot now and then.
SLOTS = Profile(
    {"kill": 6, "slow_link": 6, "moved_leader": 2, "broken_connection": 1},
    0.3,
    _LOSSY,
    is_timed=True,
    trusts_repeats=True,
    slots=0.8,
)
PROFILES = (WIDE, ELECTIONS, UNSURE, ZOMBIES, TIMED, JOINERS, LATE_JOINERS)
# The power of all machines goes at once.
BLACKOUTS = Profile({"blackout": 6, "moved_leader": 3, "kill": 2, "broken_connection": 2}, 0.8, _LOSSY)
# Files rot, on one machine at a time, and nodes and leaders come and go meanwhile.
ROT = Profile({"rot": 8, "moved_leader": 3, "kill": 2, "power_cut": 2, "failed_sync": 2, "full_disk": 1}, 1.0, _LOSSY)
