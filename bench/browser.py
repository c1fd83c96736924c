"""A Chromium for the tests of the page and its benchmark, by Debian's packages if need be: `python -m bench.browser`.

That needs root and apt. Elsewhere any Chromium or Chrome on PATH serves, or one named by ROLLCALL_CHROMIUM.
"""

import os
import shutil
import subprocess
import sys

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = [
    "--no-sandbox",  # root may ask, for whom Chromium's own sandbox does not start
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

_COMMANDS = (
    ("apt-get", "update", "-qq"),
    ("apt-get", "install", "--yes", "-qq", "--no-install-recommends", "chromium"),
)
_LIMIT_S = 600


def chromium() -> str | None:
    """The program, where there is one."""
    named = os.environ.get("ROLLCALL_CHROMIUM")
    return named or next((found for name in NAMES if (found := shutil.which(name))), None)


def main() -> int:
    """Bring it; 1 where it cannot be had."""
    if chromium() is None and shutil.which("apt-get") and os.geteuid() == 0:
        print("bench: Chromium is installed ...", flush=True)
        quiet = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
        for command in _COMMANDS:
            subprocess.run(command, env=quiet, stdout=subprocess.DEVNULL, timeout=_LIMIT_S, check=False)
    if found := chromium():
        print(f"chromium: {found}")
        return 0
    print("no Chromium: the page is not tested; install one, or name it by ROLLCALL_CHROMIUM", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
