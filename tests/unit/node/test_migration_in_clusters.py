"""A directory of an earlier layout is taken over by a node on its own: other nodes of a cluster have nothing of it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.fixtures.former_layout.reading import unpack

from goqueue.errors import ConfigError
from goqueue.node.assembly.migration import migrate
from goqueue.node.cluster.importing import taken_over


@pytest.mark.parametrize(("name", "former"), [("queues", "__delivery_state"), ("delays", "__delayed")])
def test_no_cluster_is_founded_from_a_directory_that_was_not_taken_over(name: str, former: str, tmp_path: Path) -> None:
    unpack(name, tmp_path)
    data_dir = tmp_path / "data"
    with (
        pytest.raises(ConfigError, match=f"{former} is not taken over yet: start it once on its own"),
        taken_over(data_dir, 1),
    ):
        raise AssertionError("it was taken over")
    assert not (data_dir / "cluster.json").exists(), "it may be started on its own"


async def test_a_node_of_a_cluster_deletes_no_topic_that_it_has_nothing_of() -> None:
    """Another node may have what lies in it."""

    async def commit(events: Any) -> None:
        raise AssertionError(events)

    image = SimpleNamespace(topic=lambda name: name if name == "__delayed" else None)
    storage = SimpleNamespace(cluster=object(), metadata=SimpleNamespace(image=image, commit=commit), partitions=None)
    tools = SimpleNamespace(world=SimpleNamespace(files=None))
    with pytest.raises(ConfigError, match="__delayed of an earlier version"):
        await migrate(cast("Any", tools), cast("Any", storage))
