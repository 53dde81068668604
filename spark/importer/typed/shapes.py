"""The types of values that a target holds, and whether files of a new type can be read together with them.

A reader with ``mergeSchema`` puts the columns of all files together by their names: a column that a file lacks is null.
A column that has two types in two files makes the whole target unreadable.
"""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa

from logd.errors import LogdError

#: A type as JSON: its name in Spark, or {"struct": {name: shape}}, {"array": shape}, {"map": shape}.
Shape = Any

_NAMES = {
    pa.bool_(): "boolean",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.binary(): "binary",
    pa.string(): "string",
    pa.date32(): "date",
    pa.timestamp("us", tz="UTC"): "timestamp",
    pa.timestamp("us"): "timestamp_ntz",
}

_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)\Z")


class IncompatibleShape(LogdError):
    """A new type cannot be read together with the one that a target holds."""


def shape_of(kind: Any) -> Shape:
    """Return the shape of a type of Arrow's."""
    if pa.types.is_struct(kind):
        return {"struct": {each.name: shape_of(each.type) for each in kind}}
    if pa.types.is_map(kind):
        return {"map": shape_of(kind.item_type)}
    if pa.types.is_list(kind):
        return {"array": shape_of(kind.value_type)}
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    return _NAMES[kind]


def merged(held: Shape, new: Shape, where: str = "value", widening: bool = False) -> Shape:
    """Return the shape that files of both have together. Raises IncompatibleShape that names the place.

    ``widening``: int may become bigint, float double, and a decimal one of more digits, as in tables of Iceberg.
    """
    if isinstance(held, dict) and isinstance(new, dict) and held.keys() == new.keys():
        ((kind, inner),) = held.items()
        if kind != "struct":
            return {kind: merged(inner, new[kind], f"{where}{'[]' if kind == 'array' else '{}'}", widening)}
        both = dict(inner)
        spelled = {name.lower(): name for name in inner}
        for name, shape in new[kind].items():
            other = spelled.setdefault(name.lower(), name)
            if other != name:
                raise IncompatibleShape(f"{where} has a field {other}, and would get {name}, one name to Spark")
            both[name] = merged(inner[name], shape, f"{where}.{name}", widening) if name in inner else shape
        return {kind: both}
    if widening and _is_wider(held, new):
        return new
    if held != new:
        raise IncompatibleShape(f"{where} is {_described(held)}, and would become {_described(new)}")
    return held


def _is_wider(held: Shape, new: Shape) -> bool:
    """Return whether readers of a table can take what they hold for the new type."""
    if (held, new) in (("int", "bigint"), ("float", "double")):
        return True
    digits = [_DECIMAL.match(each) if isinstance(each, str) else None for each in (held, new)]
    if digits[0] is None or digits[1] is None:
        return False
    return digits[0][2] == digits[1][2] and int(digits[0][1]) < int(digits[1][1])


def _described(shape: Shape) -> str:
    return shape if isinstance(shape, str) else next(iter(shape))
