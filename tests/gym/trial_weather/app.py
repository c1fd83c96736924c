"""The weather example's resources server, with faults on purpose."""

from __future__ import annotations

from typing import Any

from faults import Faults
from resources_servers.example_single_tool_call.app import SimpleWeatherResourcesServer


class TrialWeather(SimpleWeatherResourcesServer):
    def setup_webserver(self) -> Any:
        app = super().setup_webserver()
        app.add_middleware(Faults, server=self.config.name)
        return app


if __name__ == "__main__":
    TrialWeather.run_webserver()
