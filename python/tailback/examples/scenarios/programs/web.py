"""A web server and its client in CPython: `web.py serve ADDRESS PORT`, `http.py get URL COUNT`."""

import http.server
import socketserver
import sys
import time
import urllib.request

BODY = bytes(500_000)


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers every request with the same body."""

    def do_GET(self) -> None:
        """Send the body."""
        self.send_response(200)
        self.send_header("Content-Length", str(len(BODY)))
        self.end_headers()
        self.wfile.write(BODY)

    def log_message(self, *_: object) -> None:
        """Write no log."""


class Server(http.server.ThreadingHTTPServer):
    """Listens without asking for its name: live, no name server can be reached, and asking takes 10 s."""

    def server_bind(self) -> None:
        """Bind, and go by the address."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])


if sys.argv[1] == "serve":
    Server((sys.argv[2], int(sys.argv[3])), Handler).serve_forever()
began, got = time.monotonic(), 0
for _ in range(int(sys.argv[3])):
    with urllib.request.urlopen(sys.argv[2]) as answer:
        got += len(answer.read())
took = time.monotonic() - began
print(f"bytes {got} seconds {took:.9f} rate {got * 8e-6 / took:.6f}")
