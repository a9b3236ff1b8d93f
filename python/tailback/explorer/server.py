"""A server for one page on the loopback address, with the built files and the opened scenario or result.

It serves only files that were in the folder at start, by name, and builds no path from a request. Other sites' pages
cannot request, frame or read anything: their requests are recognised by `Host`, `Origin` or `Sec-Fetch-Site`.
"""

from __future__ import annotations

import html
import mimetypes
import threading
from collections.abc import Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from tailback.errors import TailbackError
from tailback.explorer.opened import Opened, as_json

#: Where `make explorer` puts the page.
SITE = Path(__file__).with_name("site")

_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self' 'unsafe-inline'; "
        "img-src 'self' data: blob:; worker-src 'self' blob:; frame-ancestors 'self'; base-uri 'none'; "
        "form-action 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
# Fixed types: the machine's MIME tables may differ.
_TYPES = {".js": "text/javascript", ".wasm": "application/wasm", ".svg": "image/svg+xml", ".json": "application/json"}


class NotBuilt(TailbackError):
    """The explorer's page has not been built."""

    def __init__(self, site: Path) -> None:
        super().__init__(
            f"the explorer's page is not built: there is no {site / 'index.html'}. "
            "In a clone of the repository: make explorer. It needs Rust's target wasm32-unknown-unknown and npm"
        )


class Server:
    """Serves the page on http://127.0.0.1:PORT, with the opened scenario or result in it.

    >>> from tailback.explorer import Opened, Server
    >>> with Server(Opened("scenario", "mine", 'duration = "1s"'), site=Path("examples")) as server:
    ...     server.url  # doctest: +SKIP
    'http://127.0.0.1:40113/'
    """

    def __init__(
        self, opened: Opened | None = None, *, port: int = 0, site: Path = SITE, hosted: str | None = None
    ) -> None:
        """`hosted` is the address of a public explorer, for the links that Share creates."""
        if not (site / "index.html").is_file():
            raise NotBuilt(site)
        root = site.resolve()
        files = (path for path in root.rglob("*") if path.is_file() and path.resolve().is_relative_to(root))
        self._server = _Loopback(("127.0.0.1", port), _Handler)
        self._server.files = {f"/{path.relative_to(root).as_posix()}": path for path in files}
        self._server.opened = opened
        self._server.hosted = hosted or ""
        number = self._server.server_address[1]
        self._server.hosts = frozenset({f"127.0.0.1:{number}", f"localhost:{number}"})
        #: The page's address.
        self.url = f"http://127.0.0.1:{number}/"

    def serve(self) -> None:
        """Serve until interrupted."""
        with self._server:
            self._server.serve_forever()

    def __enter__(self) -> Server:
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Loopback(ThreadingHTTPServer):
    daemon_threads = True
    files: Mapping[str, Path]
    opened: Opened | None
    hosted: str
    hosts: frozenset[str]


class _Handler(BaseHTTPRequestHandler):
    server: _Loopback
    protocol_version = "HTTP/1.1"
    # Connections of silent clients are closed.
    timeout = 30

    def do_GET(self) -> None:
        """Answer a request, or refuse it with a reason."""
        self._answer()

    def do_HEAD(self) -> None:
        """Answer with the headers only."""
        self._answer()

    def _answer(self) -> None:
        refusal = self._refusal()
        if refusal is not None:
            self._send(HTTPStatus.FORBIDDEN, "text/plain; charset=utf-8", refusal.encode())
            return
        path = unquote(urlsplit(self.path).path)
        if path == "/":
            path = "/index.html"
        found = self._opened(path) if path.startswith("/opened") else self._file(path)
        if found is None:
            self._send(HTTPStatus.NOT_FOUND, "text/plain; charset=utf-8", b"there is no such file here\n")
        else:
            self._send(HTTPStatus.OK, *found)

    def _refusal(self) -> str | None:
        """Why a request is refused, as one from another site is; None if it is allowed."""
        hosts = self.headers.get_all("Host") or []
        if len(hosts) != 1 or hosts[0].lower() not in self.server.hosts:
            return "this server answers to 127.0.0.1 and localhost only\n"
        origin = self.headers.get("Origin")
        if origin is not None and origin.lower() not in {f"http://{host}" for host in self.server.hosts}:
            return "this server answers its own page only\n"
        if self.headers.get("Sec-Fetch-Site", "none") not in ("same-origin", "none"):
            return "this server answers its own page only; type the address to open it\n"
        return None

    def _file(self, path: str) -> tuple[str, bytes] | None:
        file = self.server.files.get(path)
        if file is None:
            return None
        kind = _TYPES.get(file.suffix) or mimetypes.guess_type(file.name)[0] or "application/octet-stream"
        data = file.read_bytes()
        if path == "/index.html" and self.server.opened is not None:
            # Marks that something was opened here; without the mark the page does not ask for it.
            data = data.replace(b"</head>", b'<meta name="tailback-opened" content="opened.json"></head>', 1)
        if path == "/index.html" and self.server.hosted:
            # Address for the page's Share links.
            there = f'<meta name="tailback-hosted" content="{html.escape(self.server.hosted)}"></head>'
            data = data.replace(b"</head>", there.encode(), 1)
        return f"{kind}; charset=utf-8" if kind.startswith("text/") else kind, data

    def _opened(self, path: str) -> tuple[str, bytes] | None:
        opened = self.server.opened
        if opened is None:
            return None
        if path == "/opened.json":
            return "application/json", as_json(opened.described())
        name = path.removeprefix("/opened/").removesuffix(".json")
        table = opened.table(name) if path == f"/opened/{name}.json" else None
        return None if table is None else ("application/json", as_json(table))

    def _send(self, status: HTTPStatus, kind: str, data: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def version_string(self) -> str:
        """Hides the version of Python from clients."""
        return "tailback"

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: the browser reports failed requests."""
