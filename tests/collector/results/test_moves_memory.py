"""A move holds a few lines in memory, however long the file is."""

import json
import subprocess
import sys
from pathlib import Path

from result_files import failure, line, main_row

MEGABYTE = 1024 * 1024


def growth(output: Path, megabytes: int) -> int:
    """By how much the memory of a process grows that moves one row of a file that long there and back."""
    each = [line(main_row(task, text="x" * MEGABYTE)) for task in range(4)]
    with output.open("wb") as file:
        for number in range(megabytes):
            file.write(each[0] if number != megabytes // 2 else each[1])
    script = str(Path(__file__).with_name("memory_trial.py"))
    command = [sys.executable, script, str(output), json.dumps(failure(1))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return int(done.stdout)


def test_ten_times_the_file_does_not_take_more_memory(tmp_path: Path) -> None:
    """20 and 200 megabytes in rows of one: both take what a few rows take, and not what a file does."""
    short, long = growth(tmp_path / "short.jsonl", 20), growth(tmp_path / "long.jsonl", 200)
    assert long < short + 8 * MEGABYTE
    assert short < 16 * MEGABYTE
