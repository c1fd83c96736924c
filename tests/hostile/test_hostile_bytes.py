"""What is no request is refused at each door, and nobody else notices."""

from urllib.parse import urlsplit

import pytest
from hostile_bytes import REFUSED
from hostile_place import Place, says

DOORS = ("collector", "main port", "listener")


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_request_is_refused(place: Place, door: str, case: str) -> None:
    """With a status of 4xx and why, or 505; the services go on, and nothing is lost."""
    url = place.door(door)
    answer = says(url, REFUSED[case].replace(b"HOST", urlsplit(url).netloc.encode()))
    assert answer.status in (400, 413, 414, 431, 501, 505), answer
    assert answer.text.strip()
    place.goes_on()
