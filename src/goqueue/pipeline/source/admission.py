"""How much of what is there goes into one micro-batch."""

from __future__ import annotations

from goqueue.pipeline.source.catalogue import Offsets


def share_out(begin: Offsets, ends: Offsets, offsets_max: int) -> Offsets:
    """Ends that take in at most `offsets_max` offsets, each partition by its share of what is there.

    A partition with something to read gets one offset at least, as long as there are
    enough: none starves behind a larger one.
    """
    sizes = {place: ends[place] - begin[place] for place in ends}
    total = sum(sizes.values())
    if total <= offsets_max:
        return dict(ends)
    taken = {place: size * offsets_max // total for place, size in sizes.items()}
    left = offsets_max - sum(taken.values())
    for place in sorted(sizes, key=lambda one: (taken[one], -sizes[one])):
        if left and taken[place] < sizes[place]:
            taken[place] += 1
            left -= 1
    return {place: begin[place] + taken[place] for place in ends}
