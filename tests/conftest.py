"""What every test runs under.

Generated cases are the same in each run, so that what passes here passes elsewhere too; with HYPOTHESIS_PROFILE=search
they are new ones, and ten times as many where a test sets no number. No case has a deadline: a slow machine is no
failure.
"""

import os

from hypothesis import settings

settings.register_profile("same", derandomize=True, deadline=None)
settings.register_profile("search", deadline=None, max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))
