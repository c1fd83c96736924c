"""Numbers in sentences."""


def plural(count: int, one: str, many: str = "") -> str:
    """`1 row`, `2 rows`; `many` is the plural where it is not `one` with an s: `plural(n, "row lies", "rows lie")`."""
    return f"{count} {one if count == 1 else many or one + 's'}"
