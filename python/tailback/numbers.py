"""The number format of tables, tiles and pages."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

__all__ = ["jsonable", "signed", "written"]


def written(value: Any, digits: int = 4, missing: str = "–") -> str:
    """A number in `digits` significant digits with commas between thousands, never with an exponent.

    Whole numbers keep all digits; None and NaN become `missing`; infinity becomes ∞; text is unchanged. Values below
    1e-12 count as rounding errors of 0.

    >>> written(45831), written(50583.2), written(0.00082913), written(9.5), written(None), written(6.7e-16)
    ('45,831', '50,583', '0.0008291', '9.5', '–', '0')
    """
    if value is None or isinstance(value, str):
        return missing if value is None else value
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    number = float(value)
    if math.isnan(number):
        return missing
    if math.isinf(number):
        return "∞" if number > 0 else "-∞"
    if abs(number) < 1e-12:
        return "0"
    places = max(0, digits - 1 - math.floor(math.log10(abs(number))))
    text = f"{number:,.{places}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def signed(value: float) -> str:
    """A difference with its sign, in the format of `written`.

    >>> signed(1234.5), signed(-0.25), signed(0.0)
    ('+1,234', '-0.25', '0')
    """
    return ("+" if value > 0 else "") + written(value)


def jsonable(value: Any) -> Any:
    """The value for JSON: null for NaN and infinity."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): jsonable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(item) for item in value]
    if isinstance(value, Path):
        return str(value)
    if hasattr(value, "item") and not isinstance(value, str | int):
        return jsonable(value.item())
    return value
