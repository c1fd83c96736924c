"""Tests of who is let in: real services on real sockets, with tokens, certificates and users of this machine."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import access_stage

stage = access_stage.stage
certified = access_stage.certified
