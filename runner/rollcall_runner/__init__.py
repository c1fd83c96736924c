"""Rollcall."""
