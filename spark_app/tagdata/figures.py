"""What an audit found, for people. Standard library only, for the controller reads it too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MEANT = {
    "records": "at the source, from where the relay began to its last committed batch",
    "gaps": "offsets without a record there: compaction, or markers of transactions",
    "lost": "not in the sink",
    "altered": "in the sink with another key, value or header, or in another topic or partition",
    "reordered": "first in the sink behind a later record of their partition",
    "repeated": "copies beyond the first",
    "records_repeated": "records that are there more than once",
    "dead_letters": "among the dead letters",
    "expired": "deleted at the sink since, by its retention: no longer to be told",
    "of_other_sources": "records in the sink's topics that came from elsewhere",
}
WRONG = ("lost", "altered", "reordered")
MENDS = {
    "lost": "deploy with RUN=<name> FROM=<time before the first>, which copies from there again",
    "altered": "see whether somebody else writes with the header relay.source; a replay by RUN=<name> writes them anew",
    "reordered": "see whether two relays write to that topic; a consumer that needs the order reads a replay by RUN=<name>",
}


def lines(figures: Mapping[str, Any]) -> list[str]:
    """A table of the figures, then the first places of each kind that is wrong, as cluster/topic/partition/offset."""
    told = [f"{key.replace('_', ' '):16} {figures[key]:>14,}  {text}" for key, text in MEANT.items()]
    for kind, places in figures["first"].items():
        told += ["", f"{kind}, the first {len(places)} of {figures[kind]:,}:", *(f"  {place}" for place in places)]
        told.append(f"  mend: {MENDS[kind]}")
    return told


def problems(figures: Mapping[str, Any]) -> list[str]:
    """What is wrong, in a few words."""
    return [f"{figures[kind]:,} {kind}" for kind in WRONG if figures[kind]]
