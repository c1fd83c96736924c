"""What a version of Gym does on its own, without Rollcall: the measure of what may and may not change."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gymlab import lab, sidecar
from gymlab.model import ONE_IN_FOUR
from gymlab.runs import Outcome
from gymlab.sidecar import Collector
from gymlab.tasks import tasks


@dataclass
class Plain:
    healthy: Outcome
    faulty: Outcome
    proxied: Outcome
    """The faulty plan once more, with nothing of Rollcall's but HTTP_PROXY in the dispatcher's environment."""


def run_all(folder: Path, home: Path, collector: Collector) -> Plain:
    with lab.opened(lab.plain(folder, home)) as unattached:
        healthy = unattached.collect("healthy", tasks())
        unattached.model.plan(**ONE_IN_FOUR)
        faulty = unattached.collect("faulty", tasks())
        unattached.model.plan(**ONE_IN_FOUR)
        proxy = sidecar.proxy(folder, collector, unattached.servers.head_server)
        unattached.servers.env |= {"HTTP_PROXY": proxy.url}
        try:
            return Plain(healthy, faulty, unattached.collect("proxied", tasks()))
        finally:
            proxy.process.end()
