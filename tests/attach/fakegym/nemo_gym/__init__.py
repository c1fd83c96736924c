"""A stand-in for NeMo Gym: the names that the attach hooks, in the shapes that 0.4 to 0.7 share."""

__version__ = "0.0.7"
