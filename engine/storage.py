"""Where a study is kept: SQLite, a journal file or a database server. Several may open it at once, and its password goes nowhere else."""

import contextlib
import fcntl
import os
import sqlite3
import warnings
from collections.abc import Iterator
from pathlib import Path

import sqlalchemy
from optuna.exceptions import StorageInternalError
from optuna.storages import BaseStorage, JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend, JournalFileSymlinkLock
from optuna.storages.journal._file import get_lock_file

from search_spaces.errors import InputError

KINDS = "a path ending in .db, journal:PATH, sqlite:///PATH, or a database URL such as postgresql://USER@HOST/NAME"
"""What a storage specification can be, in words."""

PASSWORD_HINT = "The password of a PostgreSQL server is read from PGPASSWORD or from the file in PGPASSFILE."

POSTGRESQL = "postgresql+psycopg"
"""PostgreSQL by the driver that the extra installs."""

LOCK_SECONDS = 60.0
"""How long a writer waits for SQLite's lock before it gives up."""

GRACE_SECONDS = 10
"""How long a journal's lock may last unchanged: whoever holds it appends a few lines, so after this its holder was killed."""

CREATION_LOCK = 0x62616E64
"""Key of the PostgreSQL advisory lock under which tables are made; any number that other programs are unlikely to use."""

NETWORK_FILE_SYSTEMS = ("nfs", "nfs4", "cifs", "smb3", "smbfs", "lustre", "glusterfs", "fuse.sshfs", "9p", "afs", "ceph")

SECRETS = ("pass", "secret", "token")
"""A query parameter of a URL with one of these in its name is a secret."""


def open_storage(spec: str | Path, *, read_only: bool = False) -> BaseStorage:
    """The storage a specification names.

    A journal whose last line was cut off when its writer was killed is mended: the line is dropped, with a warning that quotes it.

    Args:
      spec: see `KINDS`.
      read_only: whether it must be there already and nothing in it may change; SQLite, PostgreSQL and the journal then refuse every write.

    Raises:
      InputError: anything else, a driver is missing, or the storage cannot be opened. No message shows a password.
    """
    text = location(spec)
    try:
        if text.startswith("journal:"):
            return JournalStorage(_journal(text.removeprefix("journal:"), read_only))
        return _database(_url(str(spec)) if "://" in str(spec) else sqlalchemy.make_url(text), read_only)
    except ImportError as error:
        raise InputError(f"Expected storage={text!r} to have its driver installed: {_driver(text)}.") from error
    except Exception as error:
        said = _one_line(error)
        for secret in _secrets(str(spec)):
            said = said.replace(secret, "…")
        hint = f" {PASSWORD_HINT}" if "password" in said else ""
        # The cause is not chained: what a driver says may hold the password.
        raise InputError(f"Expected storage={text!r} to be a place we can open: {said}.{hint}") from None


@contextlib.contextmanager
def opened_storage(spec: str | Path, *, read_only: bool = False) -> Iterator[BaseStorage]:
    """`open_storage` for the length of the block; closing a SQLite storage also leaves all of it in its one file."""
    storage = open_storage(spec, read_only=read_only)
    try:
        yield storage
    finally:
        if isinstance(storage, RDBStorage):
            storage.remove_session()
            storage.engine.dispose()


def location(spec: str | Path) -> str:
    """What a specification names, without secrets and with absolute paths: fit to be shown, kept in a file, and opened again.

    Raises:
      InputError: it is none of `KINDS`.
    """
    text = str(spec)
    if text.startswith("journal:") and text != "journal:":
        return f"journal:{Path(text.removeprefix('journal:')).absolute()}"
    if text.endswith(".db") and "://" not in text:
        return f"sqlite:///{Path(text).absolute()}"
    if "://" not in text:
        raise InputError(f"Expected storage={text!r} to be {KINDS}.")
    url = _url(text)
    if url.get_backend_name() == "sqlite":
        return f"sqlite:///{Path(url.database).absolute()}"
    # One name for one place: neither the older scheme nor the driver that we would take anyway.
    scheme = "postgresql" if url.drivername == POSTGRESQL else url.drivername
    shown = sqlalchemy.URL.create(
        scheme, username=url.username, host=url.host, port=url.port, database=url.database, query=url.query,
    )
    return shown.difference_update_query(_secret_parameters(url)).render_as_string()


def has_secret(spec: str | Path) -> bool:
    """Whether a specification holds a password or another secret; raises as `location` does."""
    location(spec)
    return bool(_secrets(str(spec)))


def file_system(directory: Path, *, mounts: Path = Path("/proc/mounts")) -> str | None:
    """The kind of file system a directory is on, as Linux names it; None where that cannot be found out."""
    try:
        lines = [line.split() for line in mounts.read_text().splitlines()]
    except OSError:
        return None
    around = {Path(line[1]): line[2] for line in lines if directory.is_relative_to(line[1])}
    return around[max(around, key=lambda point: len(point.parts))] if around else None


class _Database(RDBStorage):
    """A database that keeps its password to itself: Ray Tune pickles the search, and with it its storage, into a file."""

    def __getstate__(self) -> dict[str, object]:
        return super().__getstate__() | {"url": location(self.url)}


class _Connection(sqlite3.Connection):
    """A write-ahead log: a commit waits for no disk, yet no crash can corrupt the file, and only a power cut can lose the last commits."""

    def __init__(self, *arguments: object, **options: object) -> None:
        super().__init__(*arguments, **options)
        self.execute("PRAGMA journal_mode=WAL")
        self.execute("PRAGMA synchronous=NORMAL")


class _ReadingConnection(sqlite3.Connection):
    """A connection that SQLite itself lets change nothing."""

    def __init__(self, *arguments: object, **options: object) -> None:
        super().__init__(*arguments, **options)
        self.execute("PRAGMA query_only=ON")


class _ReadingJournal(JournalFileBackend):
    """A journal that nothing can be appended to."""

    def append_logs(self, logs: list[dict[str, object]]) -> None:
        """Refuses."""
        raise PermissionError("this journal was opened for reading only")


def _database(url: sqlalchemy.URL, read_only: bool) -> RDBStorage:
    if url.get_backend_name() == "sqlite":
        path = Path(url.database)
        if read_only and not path.is_file():
            raise FileNotFoundError(f"there is no file {str(path)!r}")
        on_network = _warn_of_network(path)
        factory = _ReadingConnection if read_only else sqlite3.Connection if on_network else _Connection
        options = {"connect_args": {"timeout": LOCK_SECONDS, "factory": factory}}
    else:
        options = {"pool_pre_ping": True}
        if read_only and url.get_backend_name() == "postgresql":
            options["connect_args"] = {"options": "-c default_transaction_read_only=on"}
    text = url.render_as_string(hide_password=False)
    if read_only:
        return _Database(text, engine_kwargs=options, skip_table_creation=True)
    with _creating(url):
        return _Database(text, engine_kwargs=options)


@contextlib.contextmanager
def _creating(url: sqlalchemy.URL) -> Iterator[None]:
    """The right to make the tables, for the length of the block: two who make them at the same moment would get in each other's way."""
    backend = url.get_backend_name()
    if backend == "postgresql":
        engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.NullPool)
        with engine.begin() as connection:
            connection.execute(sqlalchemy.select(sqlalchemy.func.pg_advisory_xact_lock(CREATION_LOCK)))
            yield
    elif backend == "sqlite":
        # The folder's lock, not the file's: closing a file drops the locks that SQLite itself holds on it in this process.
        folder = os.open(Path(url.database).parent, os.O_RDONLY)
        try:
            # Some network file systems have no locks for folders.
            with contextlib.suppress(OSError):
                fcntl.flock(folder, fcntl.LOCK_EX)
            yield
        finally:
            os.close(folder)
    else:
        yield


def _journal(path: str, read_only: bool) -> JournalFileBackend:
    if read_only:
        if not Path(path).is_file():
            raise FileNotFoundError(f"there is no file {path!r}")
        return _ReadingJournal(path)
    _warn_of_network(Path(path))
    # The path is absolute: the lock is a symbolic link to it, whose age is that of its target.
    lock = JournalFileSymlinkLock(path, grace_period=GRACE_SECONDS)
    backend = JournalFileBackend(path, lock_obj=lock)
    with get_lock_file(lock):
        _mend(Path(path))
    return backend


def _mend(path: Path) -> None:
    """Drops a last line without its end; the next line would be written onto it, and no one could read the journal again."""
    with open(path, "r+b") as file:
        size = file.seek(0, os.SEEK_END)
        start = size
        # A line ends where the one before it did: look back for that, a block at a time.
        while start > 0:
            begin = max(0, start - 4096)
            file.seek(begin)
            newline = file.read(start - begin).rfind(b"\n")
            if newline >= 0:
                start = begin + newline + 1
                break
            start = begin
        if start == size:
            return
        file.seek(start)
        lost = file.read()
        file.truncate(start)
    warnings.warn(
        f"The last line of the journal {str(path)!r} was cut off when its writer was killed, and is dropped: "
        f"{lost[:80].decode(errors='replace')!r} ({len(lost)} bytes).",
        stacklevel=2,
    )


def _warn_of_network(path: Path) -> bool:
    """Whether a file lies on a network file system, where locks cannot be relied on; warns if so."""
    kind = file_system(path.absolute().parent)
    if kind not in NETWORK_FILE_SYSTEMS:
        return False
    warnings.warn(
        f"The study {str(path)!r} is on a network file system ({kind}), which may corrupt it; name a storage on a local disk, or a database "
        "server.",
        stacklevel=2,
    )
    return True


def _url(text: str) -> sqlalchemy.URL:
    """The URL in a text, with the driver we install for PostgreSQL and an absolute path for SQLite."""
    scheme, _, rest = text.partition("://")
    if rest.count("@") > 1:
        raise InputError(f"Expected storage='{scheme}://…' to have its user and password percent-encoded (%40 for @).")
    try:
        url = sqlalchemy.make_url(text)
    except (sqlalchemy.exc.ArgumentError, ValueError):
        raise InputError(f"Expected storage='{scheme}://…' to be {KINDS}.") from None
    if scheme in ("postgresql", "postgres"):
        return url.set(drivername=POSTGRESQL)
    if url.get_backend_name() == "sqlite":
        if not url.database or url.database == ":memory:":
            raise InputError(f"Expected storage='{scheme}://…' to name a file.")
        return url.set(database=str(Path(url.database).absolute()))
    return url


def _secret_parameters(url: sqlalchemy.URL) -> list[str]:
    return [name for name in url.query if any(word in name.lower() for word in SECRETS)]


def _secrets(text: str) -> list[str]:
    if "://" not in text:
        return []
    url = _url(text)
    values = [url.password, *(url.query[name] for name in _secret_parameters(url))]
    return [str(value) for value in values if value]


def _driver(text: str) -> str:
    if text.startswith("postgres"):
        return "psycopg comes with the extra postgresql, pip install 'bandsmith[postgresql]'"
    return f"there is none for {text.partition('://')[0]}"


def _one_line(error: BaseException) -> str:
    # What the driver said, without the additions of Optuna and SQLAlchemy.
    while isinstance(error, StorageInternalError) and error.__cause__ is not None:
        error = error.__cause__
    error = getattr(error, "orig", None) or error
    return " ".join(str(error).split())[:200].rstrip(".")
