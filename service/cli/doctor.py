"""`crosslet doctor`: what this machine and these settings make of the service, on one screen. Changes nothing."""

import argparse
import os
import platform
import shutil
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import partial
from ipaddress import ip_address
from typing import TYPE_CHECKING, Literal

from service.api.startup import METRICS_PORT, bound_socket, check_mcp
from service.cli.arguments import Subcommand, json_option, running_service
from service.cli.start_trial import Use, try_start
from service.cli.table import labelled, print_json, wants_table
from service.documents.milvus.address import EMBEDDED
from service.documents.store.locking import holder_url
from service.errors import CrossletError, NotFound, StartError
from service.keys import FULL, READ_ONLY
from service.process.address_space import address_space, check_start
from service.process.cpus import usable_cpus
from service.process.memory import memory_limit, resident_bytes
from service.settings import Settings, unknown_settings
from service.version import VERSION

if TYPE_CHECKING:
    from service.model.artifact import Manifest

Status = Literal["ok", "warn", "fail"]
FAILED = 1  # exit status
SHORT_KEY = 16  # characters; a shorter one may be guessed
LEAST_FREE_BYTES = 500_000_000  # of the disk
READABLE_BY_OTHERS = 0o077
SHARE = 0.9  # of a memory limit, for the service's own budget


@dataclass(frozen=True)
class Finding:
    """What one check found, with the way out."""

    check: str
    status: Status
    finding: str


def doctor(options: argparse.Namespace, settings: Settings) -> None:
    """Print a line for each check.

    Raises: SystemExit: with status 1 if one failed, so that the service would not start or not work.
    """
    findings = list(_findings(settings))
    failed = any(finding.status == "fail" for finding in findings)
    if wants_table(options):
        sys.stdout.writelines(labelled(f"{one.status:<6}{one.check:<11}", one.finding) for one in findings)
    else:
        print_json({"ok": not failed, "checks": [asdict(finding) for finding in findings]})
    if failed:
        sys.stdout.flush()
        raise SystemExit(FAILED)


def _findings(settings: Settings) -> Iterator[Finding]:
    yield Finding("version", "ok", f"crosslet {VERSION}, Python {platform.python_version()}, {platform.platform()}")
    trouble = None
    try:
        check_start(partial(try_start, settings, Use.SERVE), room_bytes=settings.working_bytes)
    except CrossletError as exc:
        trouble = str(exc)
    yield _processor()
    manifest, model = _model(settings)
    yield model
    needed_bytes, store = 0, Finding("store", "warn", "not looked at: it needs the model")
    if manifest is not None:
        try:
            needed_bytes, store = _store(settings, manifest)
        except CrossletError as exc:
            store = Finding("store", "fail", str(exc))
        except OSError as exc:
            store = Finding("store", "fail", f"{exc.filename} cannot be used ({exc.strerror}); set CROSSLET_DATA")
    yield _memory(settings, needed_bytes) if trouble is None else Finding("memory", "fail", trouble)
    yield store
    yield _keys(settings)
    yield _exposure(settings)
    yield _port(settings)
    if settings.mcp:
        yield _mcp()
    if unknown := unknown_settings():
        named = ", ".join(f"{name} (did you mean {meant}?)" if meant else name for name, meant in unknown.items())
        yield Finding("settings", "warn", f"without effect: {named}")


def _processor() -> Finding:
    from service.model.session import has_vnni

    cpus = f"{usable_cpus()} of {os.cpu_count() or '?'} CPUs, {platform.machine()}"
    if platform.machine() != "x86_64":
        return Finding("processor", "ok", cpus)
    exact = "with VNNI" if has_vnni() else "without VNNI: an exact product is used, which takes a fifth more time"
    return Finding("processor", "ok", f"{cpus} {exact}")


def _model(settings: Settings) -> "tuple[Manifest | None, Finding]":
    """Load the model as a start does: files by their hashes, vectors by the parity pack."""
    from service.model.encoder import choose_encoder
    from service.runtime import load_reranker

    try:
        choice = choose_encoder(settings.model, settings.fallback_model)
        reranker = load_reranker(settings)
    except CrossletError as exc:
        return None, Finding("model", "fail", str(exc))
    manifest = choice.encoder.manifest
    facts = f"{manifest.name} {manifest.fingerprint[:12]}, {manifest.dim} dimensions, its test vectors are right here"
    facts += f"; re-ranker {reranker.manifest.name}" if reranker is not None else ""
    if choice.refused is not None:
        return manifest, Finding("model", "warn", f"the fallback {facts}, since {choice.refused}")
    return manifest, Finding("model", "ok", facts)


def _memory(settings: Settings, documents_bytes: int) -> Finding:
    limits = {"CROSSLET_MEMORY_BUDGET": settings.memory_budget or None, "this machine or container": memory_limit()}
    known = {name: limit for name, limit in limits.items() if limit is not None}
    known |= {} if (limit := address_space()) is None else {"ulimit -v": limit}
    taken = resident_bytes() + documents_bytes
    said = f"{_megabytes(taken)} with the model and the documents' vectors"
    said += "".join(f"; {_megabytes(limit)}: {name}" for name, limit in known.items())
    least = min((limit for name, limit in known.items() if name != "ulimit -v"), default=None)
    if least is not None and taken > SHARE * least:
        return Finding("memory", "fail", f"{said}; too little is left for requests")
    machine = limits["this machine or container"]
    if settings.memory_budget and machine is not None and settings.memory_budget > machine:
        return Finding("memory", "warn", f"{said}; the budget is over what there is: the kernel may end the service")
    return Finding("memory", "ok", said)


def _store(settings: Settings, manifest: "Manifest") -> tuple[int, Finding]:
    """Return the bytes of the vectors in this process, and the finding.

    Raises: StartError, ServiceError: the documents cannot be opened.
    """
    if settings.index != EMBEDDED:
        return 0, _milvus(settings, manifest)
    from service.document_index import NEXT
    from service.documents.store.connections import REVISION_SUFFIX, acknowledged_in
    from service.documents.store.schema_check import check_facts
    from service.model.spaces import stored_as
    from service.offline.reembed import Reembedding
    from service.offline.store_file import open_store_file, size_on_disk
    from service.process.files import resolved

    manifest = stored_as(manifest, settings.space)
    path = settings.documents_path
    folder = next(one for one in (resolved(path).parent, *resolved(path).parents) if one.exists())
    free_bytes, disk = shutil.disk_usage(folder).free, f"{_megabytes(shutil.disk_usage(folder).free)} free"
    if not (folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)):
        return 0, Finding("store", "fail", f"{folder} cannot be written; set CROSSLET_DATA")
    status: Status = "warn" if free_bytes < LEAST_FREE_BYTES else "ok"
    if not path.exists():
        return 0, Finding("store", status, f"no documents yet: a start makes {path}; {disk}")
    url = holder_url(path)
    if url == "":
        return 0, Finding("store", "fail", f"another process has {path} open, which no service can share: end it")
    is_ready = Reembedding(path, fingerprint=manifest.fingerprint, dim=manifest.dim).is_ready
    with open_store_file(path) as file:
        documents, names = file.total(), [row.name for row in file.collections()]
        passages = sum(file.view(row).passages() for row in file.collections())
        revisions = file.path.with_suffix(REVISION_SUFFIX)
        acknowledged = acknowledged_in(revisions.read_bytes()) if revisions.exists() else 0
        taken = file if is_ready or not documents else manifest  # a start takes over, or makes an empty store its own
        check_facts(file.path, file.facts, fingerprint=taken.fingerprint, dim=taken.dim, acknowledged=acknowledged)
    used = f", in use by the service at {url}" if url else ""
    used += f", which a start replaces by {NEXT}" if is_ready else ""
    said = (
        f"{documents} documents in {len(names)} collections, {_megabytes(size_on_disk(path))} in {path}{used}; {disk}"
    )
    return passages * (4 * manifest.dim + 8), Finding("store", status, f"{said}; `crosslet index verify` reads all")


def _milvus(settings: Settings, manifest: "Manifest") -> Finding:
    from service.document_index import load_collection

    try:
        with closing(load_collection(settings, manifest, read_only=True)) as index:
            words = "" if index.has_keywords else ", without keywords (Milvus 2.5 has them)"
            return Finding("store", "ok", f"{len(index)} documents in the default collection of Milvus{words}")
    except StartError as exc:
        if isinstance(exc.__cause__, NotFound):
            return Finding("store", "ok", "Milvus answers; it has no documents of this model yet")
        raise


def _keys(settings: Settings) -> Finding:
    try:
        keys = settings.keys()
    except StartError as exc:
        return Finding("keys", "fail", str(exc))
    if not keys:
        return Finding("keys", "ok", "none: everything is open to whoever reaches the port (CROSSLET_API_KEYS)")
    full, read = (sum(grant == kind for grant in keys.values()) for kind in (FULL, READ_ONLY))
    said = f"{full} full, {read} read-only, {len(keys) - full - read} of some collections or with limits"
    short = sum(len(key) < SHORT_KEY for key in keys)
    if short:
        way_out = "make them longer: `openssl rand -hex 16`"
        return Finding("keys", "warn", f"{said}; {short} shorter than {SHORT_KEY} characters may be guessed: {way_out}")
    file = settings.api_keys_file
    if file is not None and file.stat().st_mode & READABLE_BY_OTHERS:
        return Finding("keys", "warn", f"{said}; other users may read {file}: `chmod 600` it")
    return Finding("keys", "ok", said)


def _exposure(settings: Settings) -> Finding:
    try:
        has_keys = bool(settings.keys())
    except StartError:
        has_keys = True  # a start is refused
    where = f"{settings.host} port {settings.port}"
    if _is_loopback(settings.host):
        said, risks = f"{where}: this machine alone", []
    else:
        said, risks = f"{where}: other machines", [] if has_keys else ["anyone there may read and write"]
    if "*" in settings.origins() and not has_keys:
        risks.append("any page in a browser may call it (CROSSLET_CORS_ORIGINS=*)")
    if risks:
        return Finding("exposure", "warn", f"{said}; {'; '.join(risks)}: set keys (CROSSLET_API_KEYS)")
    if not _is_loopback(settings.host):
        said += "; keys travel in plain HTTP: put a proxy with TLS before it"
    return Finding("exposure", "ok", said)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _port(settings: Settings) -> Finding:
    try:
        bound_socket(settings.host, settings.port).close()
        if settings.metrics_port:
            bound_socket(settings.host, settings.metrics_port, setting=METRICS_PORT).close()
    except StartError as exc:
        url = running_service(settings)
        if url is not None and url.endswith(f":{settings.port}"):
            return Finding("port", "ok", f"the service runs at {url}")
        return Finding("port", "fail", str(exc))
    return Finding("port", "ok", f"{settings.port} is free" if settings.port else "any free one")


def _mcp() -> Finding:
    try:
        check_mcp("CROSSLET_MCP")
    except StartError as exc:
        return Finding("mcp", "fail", str(exc))
    return Finding("mcp", "ok", "its package is installed")


def _megabytes(size_bytes: int) -> str:
    return f"{size_bytes / 1e6:,.0f} MB" if size_bytes < 10e9 else f"{size_bytes / 1e9:,.0f} GB"


DOCTOR = Subcommand(
    doctor, "check machine, model, store, keys and exposure; 1 if the service would fail", [json_option("one screen")]
)
