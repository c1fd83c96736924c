"""Rollcall's collector: the failure contract as code, the store of a run, and the service that answers for it."""

__version__ = "0.1.0"
