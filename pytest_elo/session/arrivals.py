"""What has arrived at the controller of all that the run's processes do: their items' ends, and their events."""

from __future__ import annotations

from collections.abc import Collection, Iterable

__all__ = ["Arrivals"]


class Arrivals:
    """Filled while a run goes on, and asked at its end what is missing."""

    def __init__(self) -> None:
        self.expected: dict[str, None] = {}
        """Items that are to run."""
        self._ended: set[str] = set()
        self._shards: dict[str, int] = {}

    def expect(self, node_ids: Iterable[str]) -> None:
        self.expected.update(dict.fromkeys(node_ids))

    def item_ended(self, node_id: str) -> None:
        self._ended.add(node_id)

    def process_ended(self, shard: str, written: int) -> None:
        """A process has come to its end and has written so many events to its shard."""
        self._shards[shard] = written

    def missing(self) -> list[str]:
        """Items that were to run and of which no final report came."""
        return [node_id for node_id in self.expected if node_id not in self._ended]

    def shards_known(self, lines: int) -> Collection[str]:
        """Shards that need not be read again where ``lines`` events have arrived; none unless those are all."""
        return self._shards if lines == sum(self._shards.values()) else ()
