import asyncio
import contextlib
import json
import os

from nemo_gym.rollout_collection import AggregationConfig, Config, RolloutAggregationHelper, RolloutCollectionHelper


def collect_rollouts():
    asyncio.run(RolloutCollectionHelper().run_from_config(Config(**json.loads(os.environ["FAKE_CONFIG"]))))


def e2e_rollout_collection():
    with contextlib.suppress(KeyboardInterrupt):
        collect_rollouts()


def aggregate_rollouts():
    config = AggregationConfig(**json.loads(os.environ["FAKE_CONFIG"]))
    asyncio.run(RolloutAggregationHelper().run_from_config(config))
