"""A short name for a document's content."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any


def content_hash(document: Mapping[str, Any]) -> str:
    """Sixteen hex digits that are equal for equal documents, whatever the order of their keys."""
    canonical = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]
