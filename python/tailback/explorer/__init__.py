"""The explorer: the whole simulator in a web page, served on this machine's loopback address only.

`tailback explore` is its command. `make explorer` builds the page into `site/`, which any static host may serve too.
"""

from tailback.explorer.opened import Opened, opened, table_hash
from tailback.explorer.server import SITE, NotBuilt, Server

__all__ = ["SITE", "NotBuilt", "Opened", "Server", "opened", "table_hash"]
