"""Which tags are one record: exchanges of one call that ended badly in one way.

A verdict asks which call failed first and how its last exchange ended, so of such exchanges the first and the last are
all that it needs, and how many there were is worth a number.
"""

from operator import attrgetter

from .exchange import Tag

_FLAGS = ("too_long", "stream", "shutdown", "by_rule")
_of_flags = attrgetter(*_FLAGS)


def way_of(tag: Tag, late: bool = False) -> str:
    """The way in which an exchange ended badly: what a rule of the policy can ask of it, its text aside.

    `late`: it ended after the outermost answer began, and so must not be taken for one that ended before.
    """
    plain = f"{tag.what} {tag.status or ''} {tag.role} {tag.marker}"
    if not (late or tag.rules or any(_of_flags(tag))):
        return plain
    flags = [name for name, is_so in zip(_FLAGS, _of_flags(tag), strict=True) if is_so] + ["late"] * late
    return " ".join([plain, *flags, *tag.rules])


def call_of(tag: Tag) -> str:
    """The call that a tag is of. An exchange without an owner has no retries that anybody could know: the same request
    in the same minute stands for it."""
    return tag.call if tag.dispatch else f"{tag.server} {tag.method} {tag.path} {tag.ended_at // 60:.0f}"
