"""How the value of a setting is written for people; what is secret never is."""

from typing import Any, get_args

from pydantic import SecretStr
from pydantic.fields import FieldInfo
from rollcall_collector.hiding import HIDDEN, hidden, hidden_path
from rollcall_collector.settings import BY_VARIABLE_ALONE, PATH_IS_SECRET


def is_secret(field: FieldInfo) -> bool:
    """Whether nothing of the value may be shown."""
    typed = SecretStr in (field.annotation, *get_args(field.annotation))
    return typed or field.json_schema_extra == BY_VARIABLE_ALONE


def shown(field: FieldInfo | None, value: Any) -> Any:
    """The value as JSON can hold it, without its secrets. Of what is no setting, the field is None."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if field is not None and is_secret(field):
        return HIDDEN
    if isinstance(value, list | tuple):
        return [shown(field, each) for each in value]
    if field is not None and field.json_schema_extra == PATH_IS_SECRET:
        return hidden_path(str(value))
    return hidden(str(value))


def without_secrets(text: str, field: FieldInfo, value: Any) -> str:
    """A sentence about a wrong value, which may quote it."""
    secret, harmless = str(value), shown(field, value)
    return hidden(text if harmless == value or not secret else text.replace(secret, str(harmless)))


def written(value: Any) -> str:
    """The value as one would write it, but for a list's brackets."""
    if value is None or value == []:
        return "none"
    if isinstance(value, list):
        return ", ".join(value)
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.15g}" if isinstance(value, float) else str(value)
