"""The evaluation in a container for Gym: `evaluation.py HOME`, attached by the variables that the container has."""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "gym"))

from gymlab import lab as laboratory
from gymlab.environment import variables
from gymlab.model import ONE_IN_FOUR
from gymlab.tasks import tasks


def main() -> int:
    home = Path(sys.argv[1])
    lab = laboratory.plain(Path("/results/lab"), home)
    lab.servers.env = variables(home, os.environ["ROLLCALL_PROXY"], os.environ["PYTHONPATH"])
    lab.model.plan(**ONE_IN_FOUR)
    with lab.serving("run", tasks()) as run:
        ended = run.finish()
    print(ended.text)
    return ended.exit


if __name__ == "__main__":
    sys.exit(main())
