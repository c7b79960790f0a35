"""Loads or generates the server's certificate, and loads the authorities of its clients.

Source: k8s.io/apiserver pkg/server/options serving.go MaybeDefaultWithSelfSignedCerts;
client-go util/cert.
"""

import datetime as dt
import ipaddress
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from scheduler.clock import Clock
from scheduler.config.options import RunOptions
from scheduler.daemon.serving.errors import ServingError
from scheduler.memory_file import memory_file

PAIR_NAME: Final = "kube-scheduler"
"""Source: cmd/kube-scheduler/app/options, SecureServing.ServerCert.PairName."""

_VALID: Final = dt.timedelta(days=365)
_BACKDATED: Final = dt.timedelta(hours=1)
"""Allowance for clients whose clock is slow."""


class KeyPair(NamedTuple):
    """A certificate chain and its key, as PEM."""

    certificate: bytes
    key: bytes


class PairFiles(NamedTuple):
    """The paths of a certificate chain and its key."""

    certificate: Path
    key: Path


def server_pair_files(options: RunOptions, clock: Clock) -> PairFiles | None:
    """Return the files of the server's pair; None if the pair is generated in memory.

    If --cert-dir has no pair, generate one and write it there.

    Raises:
        ServingError: the folder cannot be written.
    """
    if options.tls_cert_file:
        return PairFiles(Path(options.tls_cert_file), Path(options.tls_private_key_file))
    if not options.cert_dir:
        return None
    folder = Path(options.cert_dir)
    files = PairFiles(folder / f"{PAIR_NAME}.crt", folder / f"{PAIR_NAME}.key")
    if not (files.certificate.exists() and files.key.exists()):
        try:
            _write_pair(files, self_signed_pair(clock))
        except OSError as error:
            raise ServingError(
                f"--cert-dir={folder}: cannot be written: {error.strerror}"
            ) from error
    return files


def self_signed_pair(clock: Clock) -> KeyPair:
    """Generate a self-signed pair for localhost, as kube-scheduler does."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = clock.wall()
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATED)
        .not_valid_after(now + _VALID)
        .add_extension(
            x509.SubjectAlternativeName(
                [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
            ),
            critical=False,
        )
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(key, hashes.SHA256())
    )
    return KeyPair(
        certificate.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
    )


def read_authorities(path: str, flag: str) -> tuple[x509.Certificate, ...]:
    """Read a bundle of authorities; return none without a path.

    Raises:
        ServingError: the file cannot be read or has no certificate.
    """
    if not path:
        return ()
    try:
        return tuple(x509.load_pem_x509_certificates(Path(path).read_bytes()))
    except OSError as error:
        raise ServingError(f"--{flag}={path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ServingError(f"--{flag}={path}: expected PEM certificates: {error}") from error


@contextmanager
def as_files(pair: KeyPair) -> Iterator[PairFiles]:
    """Yield the paths of files in memory with a pair: Python's ssl reads only files."""
    with ExitStack() as opened:
        yield PairFiles(*(opened.enter_context(memory_file(content)) for content in pair))


def _write_pair(files: PairFiles, pair: KeyPair) -> None:
    files.certificate.parent.mkdir(parents=True, exist_ok=True)
    files.certificate.write_bytes(pair.certificate)
    descriptor = os.open(files.key, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(pair.key)
