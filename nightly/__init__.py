"""What is too long for every commit: `python -m nightly`, and the audit of what is locked."""
