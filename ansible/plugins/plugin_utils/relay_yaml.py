"""A relay's settings file as text: is it YAML, with each key once? Values that come from variables are none of its business."""

from __future__ import annotations

from typing import Any

import yaml
from yaml.constructor import ConstructorError

VAULT = "$ANSIBLE_VAULT"


class _Loader(yaml.SafeLoader):
    """Takes any tag, such as !vault, and no key twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if key.value in seen:
                raise ConstructorError(None, None, f"the key {key.value} is there twice", key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)


_Loader.add_multi_constructor("!", lambda loader, suffix, node: "")  # type: ignore[no-untyped-call]


def read(text: str) -> tuple[Any, str]:
    """What a text holds, and why it is no settings file, else empty. A text that is encrypted as a whole is taken as it is."""
    if text.startswith(VAULT):
        return {}, ""
    try:
        data = yaml.load(text, Loader=_Loader)
    except yaml.YAMLError as error:
        mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        return None, f"{where}{problem or error}"
    return data, "" if isinstance(data, dict) else "it holds no keys with values"
