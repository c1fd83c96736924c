"""A run's result files, and moving rows between them without losing one.

Where the files are (`names`), who may change them (`lock`), how their lines are read and a torn one repaired
(`lines`), the writes that survive a crash (`durable`), the row that Gym would have written (`written`), and the two
moves (`moving`). Everything works line by line: no file is ever held in memory.

Standard library only, and no import from outside of this package: the attach loads it by its path inside of Gym's
process, where nothing else of Rollcall's is installed.
"""
