"""Every claim of the fourth section."""

from __future__ import annotations

from . import claims_lan, claims_wan

CLAIMS = (*claims_wan.CLAIMS, *claims_lan.CLAIMS)
