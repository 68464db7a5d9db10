"""A server that asks for TLS and for a client's certificate."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("psycopg", reason="the driver psycopg is not installed")

from ledger import Ledger, UnreachableError, shared
from tools.shared.server import InstalledServer

CLIENTS = ("hostssl all app 127.0.0.1/32 cert", "local all all trust")


def openssl(folder: Path, *arguments: str) -> None:
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)


def certify(folder: Path, name: str, by: str, *extra: str) -> None:
    """Make a key, and a certificate of a name that an authority signed."""
    openssl(folder, "req", "-newkey", "rsa:2048", "-nodes", "-keyout", f"{name}.key", "-out", f"{name}.csr", *extra)
    signed = ("-CA", f"{by}.crt", "-CAkey", f"{by}.key", "-CAcreateserial", "-days", "2")
    openssl(folder, "x509", "-req", "-in", f"{name}.csr", "-copy_extensions", "copy", *signed, "-out", f"{name}.crt")
    (folder / f"{name}.key").chmod(0o600)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    folder = tmp_path_factory.mktemp("certificates")
    for authority in ("ca", "other"):
        openssl(
            folder, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={authority}",
            "-keyout", f"{authority}.key", "-out", f"{authority}.crt",
        )  # fmt: skip
    certify(folder, "server", "ca", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1")
    certify(folder, "app", "ca", "-subj", "/CN=app")
    certify(folder, "stranger", "other", "-subj", "/CN=app")
    return folder


@pytest.fixture(scope="module")
def address(certificates: Path) -> Iterator[str]:
    """The address of a database on a server that takes the role ``app`` by its certificate alone, without the certificate."""
    if (programs := InstalledServer.installed()) is None:
        pytest.skip("no PostgreSQL of the system is installed, and that of the tests speaks no TLS")
    server = InstalledServer(programs)
    database = server.new_database()
    for name in ("server.crt", "server.key", "ca.crt"):
        shutil.copy(certificates / name, server.data / name)
        if os.geteuid() == 0:
            shutil.chown(server.data / name, "postgres")
    (server.data / "pg_hba.conf").write_text("\n".join(CLIENTS) + "\n", encoding="utf-8")
    files = {"ssl": "on", "ssl_cert_file": "server.crt", "ssl_key_file": "server.key", "ssl_ca_file": "ca.crt"}
    server.sql(*(f"ALTER SYSTEM SET {name} = '{value}'" for name, value in files.items()))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server.stop("fast")
    server.start(port)
    yield f"postgresql://app@127.0.0.1:{port}/{database}"
    server.close()


def url_of(address: str, folder: Path, client: str = "app", authority: str = "ca", mode: str = "verify-full") -> str:
    files = f"sslrootcert={folder}/{authority}.crt&sslcert={folder}/{client}.crt&sslkey={folder}/{client}.key"
    return f"{address}?sslmode={mode}&{files}"


def test_a_ledger_shares_its_log_over_tls_with_certificates_of_both_sides(
    address: str, certificates: Path, tmp_path: Path
) -> None:
    url = url_of(address, certificates)
    with (
        Ledger.open(tmp_path / "a.db", log=url, tenant="acme", machine="a") as a,
        Ledger.open(tmp_path / "b.db", log=url, tenant="acme", machine="b") as b,
    ):
        b.wait(a.remember("Ada likes green tea").position)
        assert [memory.content for memory in b.memories.list()] == ["Ada likes green tea"]
    assert [replica.machine for replica in shared.replicas(url, "acme")] == ["a", "b"]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"authority": "other"}, "certificate verify failed"),
        ({"client": "stranger"}, "unknown ca|certificate"),
        ({"mode": "disable"}, "no pg_hba.conf entry|no encryption"),
    ],
    ids=["a server that another authority signed", "a client that another authority signed", "no TLS at all"],
)
def test_a_side_that_cannot_prove_itself_is_refused(
    address: str, certificates: Path, changes: dict[str, str], why: str
) -> None:
    with pytest.raises(UnreachableError, match=why):
        shared.replicas(url_of(address, certificates, **changes), "acme")


def test_a_host_that_the_certificate_does_not_name_is_refused(address: str, certificates: Path) -> None:
    url = url_of(address.replace("127.0.0.1", "localhost"), certificates)
    with pytest.raises(UnreachableError, match="does not match"):
        shared.replicas(f"{url}&hostaddr=127.0.0.1", "acme")
