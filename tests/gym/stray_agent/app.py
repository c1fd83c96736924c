"""The trial agent without Rollcall's attach, while every other server has it."""

from __future__ import annotations

import os
import sys
from functools import cache
from typing import Any

PROXY = os.environ.pop("ROLLCALL_PROXY")
sys.meta_path[:] = [finder for finder in sys.meta_path if not getattr(finder, "rollcall", False)]

import requests  # noqa: E402
import yaml  # noqa: E402
from trial import TrialAgent  # noqa: E402


class StrayAgent(TrialAgent):
    def base_url(self, server: str) -> str:
        place = next(iter(next(iter(config_of_rollcall()[server].values())).values()))
        return f"http://{place['host']}:{place['port']}"


@cache
def config_of_rollcall() -> Any:
    """From where a dispatcher without the attach has it, with Rollcall's listeners in the servers' places."""
    return yaml.safe_load(requests.get(f"{PROXY}/global_config_dict_yaml", timeout=10).json())


if __name__ == "__main__":
    StrayAgent.run_webserver()
