"""Which relays there are on the edge: each has a folder with its settings and a note of its place."""

from __future__ import annotations

import glob
import json
import os
from typing import Any

NOTE = "relay.json"


def find(request: dict[str, Any]) -> list[dict[str, Any]]:
    """The places asked for: the one that is given, those of a title, or all that were deployed from here."""
    if request.get("place"):
        return [request["place"]]
    places = []
    for path in sorted(glob.glob(os.path.join(glob.escape(request["root"]), "*", NOTE))):
        with open(path, encoding="utf-8") as file:
            places.append({**json.load(file), "folder": os.path.dirname(path)})
    wanted = request.get("title")
    return [place for place in places if not wanted or place["title"] == wanted]
