"""As much of OmegaConf as the attach uses, with JSON for YAML."""

import json


class OmegaConf:
    @staticmethod
    def to_yaml(config):
        return json.dumps(config)

    @staticmethod
    def create(text):
        return json.loads(text)
