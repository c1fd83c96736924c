"""`gym eval reverify` (Gym 0.5 on) posts `/verify` without a `/run`: a session, and a run, of its own.

What fails there must not be taken for a failure of the run whose rows are verified again.
"""

from collections.abc import Callable
from typing import Any

from . import dispatcher, owner, patching, session


def install(module: Any) -> None:
    """Fit a just imported nemo_gym.rollout_reverification."""
    patching.wrap(module.RolloutReverificationHelper, "run_from_config", _reverifying)


def _reverifying(original: Callable[..., Any]) -> Callable[..., Any]:
    async def run_from_config(self: Any, config: Any, *args: Any, **kwargs: Any) -> Any:
        if dispatcher.ACTIVE.get() is not None:
            return await original(self, config, *args, **kwargs)
        reverification = session.begin_reverification(config)
        sent = owner.SESSION.set(reverification.session)
        try:
            return await original(self, config, *args, **kwargs)
        finally:
            owner.SESSION.reset(sent)
            session.end(reverification)

    return run_from_config
