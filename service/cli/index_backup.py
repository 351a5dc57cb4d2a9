"""`crosslet index backup` and `restore`. Heavy modules are imported when used."""

import argparse
import sys
from pathlib import Path

from service.cli.arguments import local_store
from service.settings import Settings


def backup(options: argparse.Namespace, settings: Settings) -> None:
    """Copy the store to one file. A service may be writing the store meanwhile.

    Raises: StartError: there is no store, or the file cannot be written.  StorageFull: the file does not fit.
    """
    from service.offline.backup import write_backup
    from service.offline.output import progress

    store = local_store(settings)
    with progress("backup", total=None, unit="B") as bar:

        def advance(done_bytes: int, all_bytes: int) -> None:
            bar.total = all_bytes
            bar.update(done_bytes - bar.n)

        done = write_backup(store, options.file, advance=advance)
    sys.stderr.write(f"{options.file}: {done.documents} documents, revision {done.revision}, {done.size_bytes} bytes\n")


def restore(options: argparse.Namespace, settings: Settings) -> None:
    """Verify a backup and put it in the store's place. No service may have the store open.

    Raises: StartError: the backup is damaged or missing, a store is in its way, or a process has it open.
    """
    from service.offline.backup import restore as put_back
    from service.offline.output import progress

    store = local_store(settings)
    with progress("verify", total=None, unit="documents") as bar:
        done = put_back(options.file, store, force=options.force, advance=bar.update)
    sys.stderr.write(
        f"{store} has {done.documents} documents of model {done.fingerprint[:12]} at revision {done.revision}\n"
    )


def backup_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the file to write."""
    parser.add_argument("file", type=Path, metavar="FILE", help="file to write; an existing one is replaced at the end")


def restore_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the file to read, and --force."""
    parser.add_argument("file", type=Path, metavar="FILE", help="backup from `index backup` or POST /backup")
    parser.add_argument("--force", action="store_true", help="replace existing documents")
