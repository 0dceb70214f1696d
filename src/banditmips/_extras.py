"""Optional dependencies: imported when first needed, with an error that names the extra."""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["require"]


def require(module: str, *, extra: str, purpose: str) -> Any:
    """Import an optional module, or say which extra brings it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f"{purpose} needs {module.split('.')[0]}, which is not installed: pip install 'banditmips[{extra}]'"
        ) from error
