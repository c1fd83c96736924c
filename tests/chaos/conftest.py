"""The tests of chaos: that its comparison finds what is wrong, and ten rounds with seeds that stay."""

import sys
from pathlib import Path

for folder in (Path(__file__).parent, Path(__file__).parents[2]):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
