"""The documentation's examples as tests. `doclab` reads them and runs them; the generator lies in docs/."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "docs")]
