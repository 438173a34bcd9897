"""A PostgreSQL server of the tests' own: on loopback, with a password, as an unprivileged user, in a folder that goes with it."""

import contextlib
import dataclasses
import os
import pwd
import secrets
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import sqlalchemy

USER = "bandsmith"


@dataclasses.dataclass(frozen=True)
class Server:
    """A running server."""

    port: int
    password: str

    def location(self, database: str) -> str:
        """The URL of a database, without the password."""
        return f"postgresql://{USER}@127.0.0.1:{self.port}/{database}"

    def url(self, database: str) -> str:
        """The URL of a database, with the password."""
        return f"postgresql://{USER}:{self.password}@127.0.0.1:{self.port}/{database}"

    def new_database(self, name: str) -> str:
        """Makes an empty database and returns its name."""
        engine = sqlalchemy.create_engine(
            self.url("postgres").replace("postgresql:", "postgresql+psycopg:"), isolation_level="AUTOCOMMIT", poolclass=sqlalchemy.NullPool,
        )
        with engine.connect() as connection:
            connection.execute(sqlalchemy.text(f"CREATE DATABASE {name}"))
        return name


def binaries() -> Path | None:
    """The folder of initdb and pg_ctl: where Debian has the newest, or that on PATH; None if there is none."""
    folders = [*sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda folder: int(folder.parent.name), reverse=True)]
    on_path = shutil.which("initdb")
    folders += [Path(on_path).resolve().parent] if on_path else []
    return next((folder for folder in folders if (folder / "initdb").exists() and (folder / "pg_ctl").exists()), None)


@contextlib.contextmanager
def server() -> Iterator[Server]:
    """A server for the length of the block. PostgreSQL refuses root, so that root's tests run it as another user."""
    folder = Path(tempfile.mkdtemp(prefix="pg"))
    as_user = {}
    if os.getuid() == 0:
        account = pwd.getpwnam("nobody")
        os.chown(folder, account.pw_uid, account.pw_gid)
        as_user = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
    password, port = secrets.token_hex(16), _free_port()
    password_file = folder / "password"
    password_file.write_text(password)
    if as_user:
        os.chown(password_file, as_user["user"], as_user["group"])

    def run(program: str, *arguments: str) -> None:
        with open(folder / "output", "ab") as output:
            subprocess.run(
                [binaries() / program, "-D", folder / "data", *arguments], check=True, cwd=folder, stdout=output, stderr=output, timeout=60, **as_user,
            )

    try:
        run("initdb", "-U", USER, f"--pwfile={password_file}", "--auth=scram-sha-256", "--no-sync", "--encoding=UTF8", "--locale=C")
        password_file.unlink()
        options = f"-c listen_addresses=127.0.0.1 -c port={port} -c unix_socket_directories='' -c fsync=off -c max_connections=30"
        run("pg_ctl", "start", "-w", "-l", str(folder / "log"), "-o", options)
        try:
            yield Server(port, password)
        finally:
            run("pg_ctl", "stop", "-w", "-m", "immediate")
    finally:
        shutil.rmtree(folder)


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]
