"""Compares a field's default, a value of JSON, with the field's type, by the table of the Avro specification."""

from __future__ import annotations

from attrs import define, field

from logd.schema_registry.avro.types import (
    NO_DEFAULT,
    AvroArray,
    AvroEnum,
    AvroFixed,
    AvroMap,
    AvroRecord,
    AvroType,
    AvroUnion,
    InvalidAvroSchema,
)

#: Comparisons of a value with a type, for all defaults of a schema: some 0.2 s, in which the reactor does nothing else.
#: Without a limit a value that is nested in a recursive union takes twice as many with each level.
MOST_COMPARISONS = 200_000
_INT = 1 << 31
_LONG = 1 << 63


@define(eq=False)
class DefaultComparison:
    """Compares the defaults of one schema with the types of their fields."""

    _done: int = 0
    #: The symbols of enums, which may be many.
    _symbols: dict[AvroEnum, frozenset[str]] = field(factory=dict)

    def fits(self, type_: AvroType, value: object) -> bool:
        """Return whether ``value`` is a default for a field of this type. Recursion ends with the depth of ``value``.

        Raises InvalidAvroSchema once the schema takes more than MOST_COMPARISONS.
        """
        self._done += 1 + (len(type_.fields) if isinstance(type_, AvroRecord) else 0)
        if self._done > MOST_COMPARISONS:
            raise InvalidAvroSchema(
                f"the schema has too many defaults, or too deep ones: at most {MOST_COMPARISONS} comparisons of a "
                "value with a type are made"
            )
        match type_:
            case AvroUnion():
                return any(self.fits(branch, value) for branch in type_.branches)
            case AvroArray():
                return isinstance(value, list) and all(self.fits(type_.items, each) for each in value)
            case AvroMap():
                return isinstance(value, dict) and all(self.fits(type_.values, each) for each in value.values())
            case AvroRecord():
                # A field that the value leaves out has its own default, which is examined where it stands.
                return isinstance(value, dict) and all(
                    self.fits(each.type, value[each.name]) if each.name in value else each.default is not NO_DEFAULT
                    for each in type_.fields
                )
            case AvroEnum():
                return isinstance(value, str) and value in self._symbols_of(type_)
            case AvroFixed():
                return isinstance(value, str) and len(value) == type_.size and _is_bytes(value)
        return _fits_primitive(type_.kind, value)

    def _symbols_of(self, enum: AvroEnum) -> frozenset[str]:
        found = self._symbols.get(enum)
        if found is None:
            found = self._symbols[enum] = frozenset(enum.symbols)
        return found


def _fits_primitive(kind: str, value: object) -> bool:
    match kind:
        case "null":
            return value is None
        case "boolean":
            return isinstance(value, bool)
        case "string":
            return isinstance(value, str)
        case "bytes":
            return isinstance(value, str) and _is_bytes(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    if kind in ("float", "double"):
        return True
    limit = _INT if kind == "int" else _LONG
    return isinstance(value, int) and -limit <= value < limit


def _is_bytes(value: str) -> bool:
    """Return whether each character stands for one byte, as JSON has no bytes."""
    try:
        value.encode("latin-1")
    except UnicodeEncodeError:
        return False
    return True
