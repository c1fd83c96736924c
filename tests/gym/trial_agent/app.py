"""The trial agent's server, with one worker or several."""

from __future__ import annotations

from nemo_gym.server_utils import is_nemo_gym_fastapi_entrypoint
from trial import TrialAgent

if __name__ == "__main__":
    TrialAgent.run_webserver()
elif is_nemo_gym_fastapi_entrypoint(__file__):
    app = TrialAgent.run_webserver()
