"""Cut the starter suite's recordings out of those of ``evals/``: its requests are a part of theirs.

Run after recording: ``pytest evals --elo-record && python tools/starter_recordings.py``. Raises when a request
of the starter was never recorded.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from pytest_elo.config import Settings, load  # noqa: E402
from pytest_elo.gateway.client import Gateway, GatewaySettings  # noqa: E402
from pytest_elo.gateway.recorded import Recorded  # noqa: E402
from pytest_elo.gateway.recordings import MANIFEST, Recordings  # noqa: E402
from pytest_elo.records import Attempt, Tag  # noqa: E402
from pytest_elo.strategies.run import run  # noqa: E402
from pytest_elo.tasks.own import load as load_task  # noqa: E402

SHIPPED = ROOT / "evals" / "recordings"
STARTER = ROOT / "pytest_elo" / "starter" / "files"


class Used(Recordings):
    """Recordings that remember what was found in them."""

    found: dict[tuple[str, int], Recorded]

    def find(self, tag: Tag, key: str, occurrence: int) -> Recorded | None:
        recorded = super().find(tag, key, occurrence)
        if recorded is not None:
            self.found[recorded.place] = recorded
        return recorded


class NoRows:
    def open(self, attempt: Attempt) -> None: ...

    def close(self, attempt: Attempt) -> None: ...


async def replay(settings: Settings, recordings: Used) -> None:
    task = load_task(STARTER / "tasks.yaml")
    gateway = Gateway(None, GatewaySettings(seed=settings.seed), NoRows(), recordings=recordings)
    for item_id in task.item_ids:
        for spec in settings.strategies:
            ask = gateway.ask_as(Tag(task.task_id, item_id, spec.name))
            await run(spec.kind, task.pose(item_id, 0), ask, spec.parameters)


def main() -> None:
    recordings = Used(SHIPPED, mode="replay")
    recordings.found = {}
    asyncio.run(replay(load(STARTER / "elo.yaml"), recordings))
    target = STARTER / "recordings"
    target.mkdir(exist_ok=True)
    lines = [recordings.found[place].to_json() + "\n" for place in sorted(recordings.found)]
    (target / "own.jsonl").write_text("".join(lines), encoding="utf-8")
    shutil.copy(SHIPPED / MANIFEST, target / MANIFEST)
    print(f"{len(lines)} recorded calls now stand in {target.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
