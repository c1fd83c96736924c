"""What a version of Gym does on its own, without Rollcall: the measure of what may and may not change."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gymlab import lab
from gymlab.model import ONE_IN_FOUR
from gymlab.runs import Outcome
from gymlab.tasks import tasks


@dataclass
class Plain:
    healthy: Outcome
    faulty: Outcome


def run_both(folder: Path, home: Path) -> Plain:
    with lab.opened(lab.plain(folder, home)) as unattached:
        healthy = unattached.collect("healthy", tasks())
        unattached.model.plan(**ONE_IN_FOUR)
        return Plain(healthy, unattached.collect("faulty", tasks()))
