"""Rollcall's runner: the command `rollcall`, which starts the services, attaches a command and reports on its runs."""
