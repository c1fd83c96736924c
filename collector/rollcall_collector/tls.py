"""TLS by files: what a service shows its callers, and whom a client of Rollcall's believes."""

import ssl
from pathlib import Path


def server_context(certificate: Path, key: Path) -> ssl.SSLContext:
    """For a service that has this certificate, with its chain, in PEM. Raises ValueError."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(certificate, key, password="")  # a key with a password is refused, not asked about
    except (OSError, ValueError) as error:
        raise ValueError(f"{certificate} with the key {key} cannot be used for TLS: {_said(error)}") from error
    return context


def client_context(authorities: Path | None = None) -> ssl.SSLContext:
    """For a client that believes those in a PEM file, else those that this system believes. Raises ValueError."""
    try:
        return ssl.create_default_context(cafile=None if authorities is None else str(authorities))
    except OSError as error:
        raise ValueError(f"{authorities} holds no certificates: {_said(error)}") from error


def _said(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error)
