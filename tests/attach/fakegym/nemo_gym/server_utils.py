import json
import os

import aiohttp  # noqa: F401 - Gym's module has these loaded, and the attach counts on that
import requests  # noqa: F401
import uvicorn  # noqa: F401


class ServerClient:
    def __init__(self, global_config_dict):
        self.global_config_dict = global_config_dict

    @classmethod
    def load_from_global_config(cls, head_server_config=None):
        return cls(json.loads(os.environ.get("NEMO_GYM_CONFIG_DICT") or os.environ["FAKE_HEAD_SERVER"]))

    def _build_server_base_url(self, server_config_dict):
        return f"http://{server_config_dict['host']}:{server_config_dict['port']}"
