"""Requests over aioquic with real TLS: `aioquic_web.py serve ADDRESS PORT`, `aioquic_web.py get ADDRESS PORT COUNT`."""

import asyncio
import datetime
import ssl
import sys
import time

from aioquic.asyncio import connect, serve
from aioquic.quic.configuration import QuicConfiguration
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

ANSWER = 500_000


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer one request."""
    await reader.read()
    writer.write(bytes(ANSWER))
    writer.write_eof()


async def listen(address: str, port: int) -> None:
    """Serve with a certificate of this run's."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "example")])
    now = datetime.datetime.now(datetime.UTC)
    until = now + datetime.timedelta(days=1)
    about = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    about = about.serial_number(1).not_valid_before(now).not_valid_after(until)
    settings = QuicConfiguration(alpn_protocols=["example"], is_client=False)
    settings.certificate, settings.private_key = about.sign(key, hashes.SHA256()), key
    handle = lambda reader, writer: asyncio.ensure_future(answer(reader, writer))  # noqa: E731
    await serve(address, port, configuration=settings, stream_handler=handle)
    await asyncio.Future()


async def get(address: str, port: int, count: int) -> None:
    """Make `count` requests, one after the other."""
    settings = QuicConfiguration(alpn_protocols=["example"], is_client=True, verify_mode=ssl.CERT_NONE)
    began, got = time.monotonic(), 0
    async with connect(address, port, configuration=settings) as connection:
        for _ in range(count):
            reader, writer = await connection.create_stream()
            writer.write_eof()
            got += len(await reader.read())
    took = time.monotonic() - began
    print(f"bytes {got} seconds {took:.9f} rate {got * 8e-6 / took:.6f}")


if sys.argv[1] == "serve":
    asyncio.run(listen(sys.argv[2], int(sys.argv[3])))
else:
    asyncio.run(get(sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
