"""Reading what a process writes to a terminal."""

import os


def read_until(terminal: int, text: str) -> str:
    """What comes up to this text and what comes with it. Raises OSError where the terminal has nobody left."""
    seen = ""
    while text not in seen:
        seen += os.read(terminal, 65536).decode("utf-8", "replace")
    return seen
