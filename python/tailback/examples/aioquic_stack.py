"""aioquic as a transport of a scenario: `transport = "python:aioquic_stack.py:Aioquic"`, with `pip install aioquic`.

One stream of one connection. Its random numbers come from the seed: aioquic draws them from `os.urandom`, which this
module replaces within aioquic. Keys are OpenSSL's own; they are as long in every run, and so no datagram's size or time
depends on them. The certificate is of Ed25519, whose signatures all have one length.
"""

from __future__ import annotations

import datetime
import random
import ssl
from collections import deque
from types import SimpleNamespace
from typing import Any

import aioquic
from aioquic import tls
from aioquic.quic import connection, events
from aioquic.quic.configuration import QuicConfiguration
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

#: Where datagrams come from and go to; nothing is sent there.
_CLIENT, _SERVER = ("192.0.2.1", 1), ("192.0.2.2", 443)
_STREAM = 0
_drawn = random.Random(0)
for _module in (connection, tls):
    _module.os = SimpleNamespace(urandom=lambda count: _drawn.randbytes(count))


class Aioquic:
    """The stack."""

    version = aioquic.__version__
    algorithms = ("reno", "cubic")

    def __init__(self) -> None:
        self._key = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
        name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "tailback")])
        made = x509.CertificateBuilder(name, name, self._key.public_key(), 1)
        since, until = (datetime.datetime(year, 1, 1, tzinfo=datetime.UTC) for year in (2020, 2099))
        made = made.not_valid_before(since).not_valid_after(until)
        self._certificate = made.sign(self._key, None)

    def connect(self, setup: Any) -> tuple[End, End]:
        """The client's end and the server's."""
        return End(self._configuration(setup, True), setup), End(self._configuration(setup, False), setup)

    def _configuration(self, setup: Any, is_client: bool) -> Any:
        made = QuicConfiguration(
            is_client=is_client,
            alpn_protocols=["tailback"],
            congestion_control_algorithm=setup.cc,
            max_datagram_size=setup.most_payload,
            verify_mode=ssl.CERT_NONE,
        )
        if setup.receive_buffer is not None:
            made.max_stream_data = made.max_data = setup.receive_buffer
        if not is_client:
            made.certificate, made.private_key = self._certificate, self._key
        return made


class End:
    """One end of a connection."""

    def __init__(self, configuration: Any, setup: Any) -> None:
        self._random = random.Random(f"{setup.seed} {configuration.is_client}")
        self._configuration = configuration
        self._most_held = setup.send_buffer or 1_000_000
        self._quic: Any = None
        self._waiting: deque[bytes] = deque()
        self._progress: set[str] = set()
        self._arrived = self._written = 0
        self._is_closing = False
        if configuration.is_client:
            self._draw()
            self._quic = connection.QuicConnection(configuration=configuration)
            self._quic.connect(_SERVER, now=setup.now_s)

    def _draw(self) -> None:
        global _drawn
        _drawn = self._random

    def on_datagram(self, now: float, datagram: bytes, ecn: int) -> None:
        """The server learns its client's connection ID from the first one."""
        self._draw()
        if self._quic is None:
            length = datagram[5]
            original = datagram[6 : 6 + length]
            self._quic = connection.QuicConnection(
                configuration=self._configuration, original_destination_connection_id=original
            )
        is_client = self._configuration.is_client
        self._quic.receive_datagram(datagram, _SERVER if is_client else _CLIENT, now)
        self._hear()

    def _hear(self) -> None:
        while (event := self._quic.next_event()) is not None:
            if isinstance(event, events.HandshakeCompleted):
                self._progress.add("established")
            elif isinstance(event, events.StreamDataReceived):
                self._arrived += len(event.data)
                if event.end_stream:
                    self._progress.add("peer_finished")
            elif isinstance(event, events.ConnectionTerminated):
                self._progress.add("closed")
                if event.error_code and not self._is_closing:
                    self._progress.add("failed")

    def poll_transmit(self, now: float) -> bytes | None:
        """One of all that aioquic gives at once."""
        if self._quic is None:
            return None
        if not self._waiting:
            self._draw()
            self._waiting.extend(datagram for datagram, _ in self._quic.datagrams_to_send(now))
        return self._waiting.popleft() if self._waiting else None

    def next_timeout(self) -> float | None:
        """Of loss, pacing, acknowledgements and the idle connection."""
        at: float | None = self._quic.get_timer() if self._quic is not None else None
        return at

    def on_timeout(self, now: float) -> None:
        """One of them is due."""
        self._draw()
        self._quic.handle_timer(now)
        self._hear()

    def write(self, most: int) -> int:
        """No more than the buffer holds: aioquic would take everything."""
        if "established" not in self._progress or self._is_closing:
            return 0
        taken = max(min(most, self._most_held - self._held), 0)
        if taken:
            self._quic.send_stream_data(_STREAM, bytes(taken))
            self._written += taken
        return taken

    @property
    def _held(self) -> int:
        stream = self._quic._streams.get(_STREAM)
        return self._written - stream.sender._buffer_start if stream is not None else 0

    def finish(self) -> None:
        """The stream ends."""
        self._quic.send_stream_data(_STREAM, b"", end_stream=True)

    def read(self, now: float) -> int:
        """Events carry what arrived."""
        bytes_read, self._arrived = self._arrived, 0
        return bytes_read

    def close(self, now: float) -> None:
        """Says so to the peer."""
        self._is_closing = True
        if self._quic is not None:
            self._quic.close()
        self._progress.add("closed")

    def progress(self) -> set[str]:
        """How far it has come."""
        stream = self._quic._streams.get(_STREAM) if self._quic is not None else None
        if stream is not None and stream.sender.is_finished:
            self._progress.add("acknowledged")
        return self._progress

    def state(self) -> dict[str, float]:
        """What aioquic keeps of its sender."""
        if self._quic is None:
            return {}
        loss = self._quic._loss
        stream = self._quic._streams.get(_STREAM)
        said = {
            "cwnd": loss.congestion_window,
            "in_flight": loss.bytes_in_flight,
            "packets_sent": self._quic._packet_number,
            "bytes_acked": stream.sender._buffer_start if stream is not None else 0,
        }
        if loss._rtt_initialized:
            said |= {"srtt_s": loss._rtt_smoothed, "rtt_s": loss._rtt_latest, "rtt_min_s": loss._rtt_min}
        return said
