"""Scripted callers and servers, and an engine between them."""
