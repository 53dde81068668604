"""Random Avro schemas as values of JSON, and later versions of them, for comparisons with fastavro."""

from __future__ import annotations

import copy
from random import Random
from typing import Any

from logd.schema_registry.avro.types import PRIMITIVES


def random_schema(random: Random, names: list[str], depth: int = 0) -> Any:
    """Return a schema. ``names`` collects the names in use, of which some are used again."""
    roll = random.random()
    if depth > 3 or roll < 0.4:
        return random.choice(PRIMITIVES)
    if roll < 0.5:
        return {"type": "array", "items": random_schema(random, names, depth + 1)}
    if roll < 0.6:
        return {"type": "map", "values": random_schema(random, names, depth + 1)}
    if roll < 0.7:
        return ["null", random.choice(PRIMITIVES[1:])]
    if roll < 0.75 and names:
        return random.choice(names)
    name = f"N{random.randrange(1 << 40)}"
    shared = {"name": name, "namespace": random.choice(["", "a", "a.b"])}
    if roll < 0.8:
        return {"type": "fixed", "size": random.randrange(9), **shared}
    if roll < 0.85:
        return {"type": "enum", "symbols": random.sample("PQRST", random.randint(1, 5)), **shared}
    number = random.randint(0, 4)
    fields = [{"name": f"f{each}", "type": random_schema(random, names, depth + 1)} for each in range(number)]
    names.append(f"{shared['namespace']}.{name}".lstrip("."))
    return {"type": "record", "fields": fields, **shared}


def changed(random: Random, schema: Any) -> Any:
    """Return a copy with some changes, of which some are compatible and some are not."""
    schema = copy.deepcopy(schema)
    for node in _nodes(schema):
        if random.random() < 0.7:
            continue
        match node.get("type"):
            case "record":
                fields = node["fields"]
                if fields and random.random() < 0.5:
                    fields.pop(random.randrange(len(fields)))
                else:
                    added: dict[str, Any] = {"name": f"g{random.randrange(9)}", "type": "int"}
                    if random.random() < 0.7:
                        added["default"] = 1
                    if all(each["name"] != added["name"] for each in fields):
                        fields.insert(random.randint(0, len(fields)), added)
            case "enum":
                node["symbols"] = sorted({*node["symbols"], random.choice("PQRST")})
            case "fixed":
                node["size"] += 1
        for key in ("items", "values", "type"):
            if isinstance(node.get(key), str) and node[key] in PRIMITIVES and node[key] != "bytes":
                node[key] = random.choice([node[key], "long", "double", "string", ["null", node[key]]])
                if "default" in node:
                    del node["default"]
    return schema


def _nodes(schema: Any) -> list[dict[str, Any]]:
    found = []
    waiting = [schema]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            if each.get("type") in ("record", "enum", "fixed", "array", "map") or "type" in each:
                found.append(each)
            waiting.extend(value for value in each.values() if isinstance(value, (dict, list)))
        elif isinstance(each, list):
            waiting.extend(each)
    return found
