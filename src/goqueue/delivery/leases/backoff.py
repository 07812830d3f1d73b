"""How long a message waits before it is tried again."""

from __future__ import annotations

from goqueue.delivery.policy import DeliveryPolicy


def backoff_ms(policy: DeliveryPolicy, delivery_count: int, chance: float = 0.0) -> int:
    """The wait after that many deliveries; `chance` in [0, 1) decides how much of the jitter is added."""
    base, most = policy.backoff_ms, policy.backoff_ms_max
    wait: float = base
    # Multiplied step by step and cut at the maximum: a power could overflow.
    for _ in range(delivery_count - 1):
        wait *= policy.backoff_multiplier
        if wait >= most:
            wait = most
            break
    return int(min(wait, most) * (1 + policy.backoff_jitter * chance))
