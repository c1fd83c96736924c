"""The two ends of a measurement: who sends, and who answers. Both must be faster than what stands between them."""
