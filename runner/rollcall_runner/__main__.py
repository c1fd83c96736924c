"""`python -m rollcall_runner` is `rollcall`."""

import sys

from .cli import main

sys.exit(main())
