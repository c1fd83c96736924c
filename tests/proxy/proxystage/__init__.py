"""A stage for transcripts: a real collector, a real proxy, and servers that play Gym's."""
