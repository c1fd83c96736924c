"""A small evaluation without Gym that speaks Gym's wire and meets one fault of each kind."""

from rollcall_runner.demo.show import main

__all__ = ["main"]
