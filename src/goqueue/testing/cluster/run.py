"""One run of a simulated cluster: clients, faults, then peace and all checks. The same seed gives the same run."""

from __future__ import annotations

import asyncio
import gc
from dataclasses import dataclass

from goqueue.testing.clock import seeded_rng
from goqueue.testing.cluster.checks import Watch, check_everything, settle
from goqueue.testing.cluster.cluster import SimCluster
from goqueue.testing.cluster.fault_injector import FaultInjector
from goqueue.testing.cluster.fault_profiles import PROFILES, Profile
from goqueue.testing.cluster.workload import History, producers

# Within so long a node has read all of its files once.
_VERIFIED_S = 12.0


@dataclass
class Outcome:
    """What a run did, for whoever wants to know whether it tried anything."""

    acknowledged: int
    refusals: dict[str, int]
    faults: dict[str, int]
    leader_epochs: int


def run_cluster(seed: int, *, seconds: float = 15.0, profile: Profile | None = None) -> Outcome:
    """Play it; raises AssertionError if something does not hold. Without a profile the seed chooses one."""
    profile = profile or PROFILES[seed % len(PROFILES)]
    cluster = SimCluster(seed, kv_faults=profile.kv_faults)
    cluster.trusts_repeats = profile.trusts_repeats
    outcome: list[Outcome] = []

    async def story() -> None:
        history = History()
        watch = Watch(cluster, history)
        watching = asyncio.create_task(watch.run())
        rng = seeded_rng(seed, "clients")
        clients = producers(cluster, history, rng, is_bursty=profile.is_bursty, slots=profile.slots)
        sending = [asyncio.create_task(client.run()) for client in clients]
        # The name of this stream of random numbers is part of what every recorded seed means.
        faults = FaultInjector(cluster, seeded_rng(seed, "mischief"), profile)
        await faults.run(seconds)
        for client in clients:
            client.is_stopped = True
        await asyncio.gather(*sending)
        if "rot" in profile.weights:
            # A node that was started late has not read all of its files yet.
            await asyncio.sleep(_VERIFIED_S)
        await settle(cluster)
        watching.cancel()
        await asyncio.wait([watching])
        if not watching.cancelled() and watching.exception() is not None:
            raise watching.exception() or AssertionError
        watch.look()
        check_everything(cluster, history)
        acknowledged = sum(one.end >= 0 for one in history.sent)
        epochs = sum(one.leader_epoch for one in cluster.metadata.image.assignments(cluster.topic_id))
        outcome.append(Outcome(acknowledged, history.refusals, dict(faults.counts), epochs))

    cluster.run(story())
    # A task tells of an error that nobody looked at when it is collected.
    gc.collect()
    cluster.loop.raise_unhandled()
    return outcome[0]
