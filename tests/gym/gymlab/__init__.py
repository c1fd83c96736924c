"""A laboratory for Rollcall on the real NeMo Gym: a model endpoint, Gym's servers, Rollcall beside them, runs."""
