"""The user's rules, in the order of their file.

The first rule that holds decides between `failure` and `no_failure`; each `terminal` rule that holds marks the
failure as one that is not to be tried again.
"""

import tomllib
from dataclasses import dataclass
from typing import Any

from .rule import Effect, Rule
from .rule_reading import RulesError, read_rules, value_of

__all__ = ["Effect", "Rule", "Rules", "RulesError", "load_rules"]


@dataclass(frozen=True, slots=True)
class Rules:
    """All rules, in the order of their file."""

    rules: tuple[Rule, ...] = ()

    def about(self, *, server: str, server_kind: str, path: str, status: int | None) -> tuple[Rule, ...]:
        """The rules that may hold for an exchange, by everything but what went wrong and the body."""
        return tuple(
            rule
            for rule in self.rules
            if rule.is_about(server=server, server_kind=server_kind, path=path, status=status)
        )

    def matching(
        self,
        *,
        server: str,
        server_kind: str,
        path: str,
        status: int | None,
        what: str | None,
        body: bytes,
        kind: str | None = None,
    ) -> tuple[str, ...]:
        """The names of the rules that have a say: the one that decides, and all terminal ones, in the file's order.

        `path` is without the query; `what` and `kind` are None where nothing went wrong, or is not known yet.
        """
        names: list[str] = []
        decided = False
        for rule in self.about(server=server, server_kind=server_kind, path=path, status=status):
            decides = rule.effect != "terminal"
            if (decides and decided) or not rule.is_for(what=what, kind=kind) or not rule.matches_body(body):
                continue
            decided = decided or decides
            names.append(rule.name)
        return tuple(names)

    def as_value(self) -> list[dict[str, Any]]:
        """The rules as JSON can carry them."""
        return [value_of(rule) for rule in self.rules]

    @classmethod
    def from_value(cls, value: Any) -> "Rules":
        """The rules out of `as_value`. Raises RulesError."""
        return cls(read_rules(value, "rules"))


def load_rules(text: str, source: str) -> Rules:
    """Read a file of rules, a TOML array of tables `[[rule]]`. `source` names it in errors. Raises RulesError."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise RulesError(f"{source}: this is not TOML: {error}; correct the file there") from None
    for key in document.keys() - {"rule"}:
        raise RulesError(f"{source}: unknown key {key!r}; every rule stands under [[rule]]")
    return Rules(read_rules(document.get("rule", []), source))
