"""What a move did, or would do."""

from dataclasses import dataclass, field

LISTED = 100
"""At most so many ids, and so many notes, are listed; the counts are of all."""


@dataclass(frozen=True, slots=True)
class Moved:
    """Counts, in dispatches unless said otherwise, with ids and notes of the first `LISTED`."""

    moved: int = 0
    """Taken out of the one file; they are in the other."""
    finished: int = 0
    """How many of `moved` were in the other file already: an earlier move was stopped between its two steps."""
    absent: int = 0
    """Asked for, and not there to be moved."""
    left: int = 0
    """There, and left where they are; the notes say why."""
    unreadable: int = 0
    """Lines in the file that rows were to be taken from that are no rows; they stay as they are."""
    ids: tuple[str, ...] = ()
    """Dispatches moved."""
    notes: tuple[str, ...] = ()
    """One sentence for each that was left, and for each repair."""


@dataclass(slots=True)
class Tally:
    """A `Moved` that is still being counted."""

    moved: int = 0
    finished: int = 0
    absent: int = 0
    left: int = 0
    unreadable: int = 0
    ids: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def leave(self, dispatch: str, why: str) -> None:
        self.left += 1
        self.note(f"{dispatch}: left where it is: {why}")

    def move(self, dispatch: str, was_there: bool) -> None:
        self.moved += 1
        self.finished += was_there
        if len(self.ids) < LISTED:
            self.ids.append(dispatch)

    def note(self, text: str) -> None:
        if len(self.notes) < LISTED:
            self.notes.append(text)

    def result(self) -> Moved:
        counts = (self.moved, self.finished, self.absent, self.left, self.unreadable)
        return Moved(*counts, ids=tuple(self.ids), notes=tuple(self.notes))
