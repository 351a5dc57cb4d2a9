"""Every setting of the service, read once at start from `CROSSLET_*`. Knows limits and paths; does no work."""

import difflib
import os
import re
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, SecretStr, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from service.documents.milvus.address import EMBEDDED
from service.errors import StartError
from service.process.address_space import WORKING_BYTES

PREFIX = "CROSSLET_"
ORIGIN = re.compile(r"\*|null|[A-Za-z][A-Za-z0-9+.-]*://[^/\s,*?#@]+")
ROOT_PATH = re.compile(r"(/[A-Za-z0-9._~-]+)*")
BUNDLED_MODEL = Path(__file__).resolve().parent.parent / "models" / "default"


class Settings(BaseSettings):
    """The service's configuration; each field is the environment variable `CROSSLET_<NAME>`."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_ignore_empty=True,  # as compose files leave them: an empty host would be every address
        allow_inf_nan=False,
        frozen=True,
        extra="ignore",
        protected_namespaces=(),
    )

    model: Path = Field(default=BUNDLED_MODEL, description="Folder of the artifact to serve; default: the bundled one.")
    fallback_model: Path | None = Field(
        default=None, description="Folder of an artifact to serve where the CPU fails the model's parity pack."
    )
    reranker: Path | None = Field(
        default=None, description="Folder of a re-ranker's artifact, for /rerank and searches; none: cosines order."
    )
    host: str = Field(default="127.0.0.1", description="Address to listen on; a container sets 0.0.0.0.")
    port: int = Field(default=8080, ge=0, le=65535, description="Port to listen on; 0 picks a free one.")
    root_path: str = Field(
        default="",
        description="Path of the service behind a proxy, such as /crosslet; the proxy may strip it or not.",
    )
    space: str = Field(
        default="",
        description="Vector space of another model (`spaces` in /info) for documents and searches; default: its own.",
    )
    data: Path = Field(default=Path("data"), description="Folder of documents.sqlite3; created if missing.")
    index: str = Field(
        default=EMBEDDED,
        description="Where documents are kept: embedded, or milvus://host:19530/database; see docs/guide/milvus.md.",
    )
    index_token: SecretStr = Field(default=SecretStr(""), description="Milvus' user:password, or its API key.")
    index_timeout_s: float = Field(default=10.0, gt=0, description="Most seconds for one call to Milvus; then: 503.")
    workers: int = Field(
        default=0, ge=0, le=1024, description="Encoding threads; 0 = the CPUs usable (affinity, cgroup quota)."
    )
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        default="INFO", description="Lowest severity to log."
    )

    max_texts: int = Field(default=512, ge=1, description="Most texts (or documents) in one request.")
    max_text_chars: int = Field(
        default=100_000,
        ge=1,
        description="Longest text in characters or token ids: it is tokenised whole before it is cut; above: 422.",
    )
    token_ids: bool = Field(
        default=False,
        description="Whether /v1/embeddings takes token ids; another tokenizer's ids would give wrong vectors.",
    )
    max_queue_texts: int = Field(
        default=512, ge=1, description="Requests are accepted while fewer texts wait for a worker; otherwise: 429."
    )
    max_queue_reads: int = Field(
        default=1024, ge=1, description="Most document look-ups and searches that wait; above: 429."
    )
    request_timeout_s: float = Field(
        default=30.0,
        gt=0,
        description="Most seconds that texts wait for a worker (429) or a filter is looked up (422).",
    )
    cache_bytes: int = Field(
        default=0, ge=0, description="Most memory for vectors of recent texts, keyed by hash; 0 = no cache."
    )
    max_body_bytes: int = Field(default=4_000_000, ge=1, description="Largest request body; above: 413.")
    max_inflight_bytes: int = Field(
        default=64_000_000,
        ge=1,
        description="Most memory for bodies, as parsed, over all requests; above: 429.",
    )
    max_unread_bytes: int = Field(
        default=64_000_000,
        ge=1,
        description="Most bytes of large answers (over 64 KiB) that clients have not read yet; above: 429.",
    )
    body_timeout_s: float = Field(default=30.0, gt=0, description="Most seconds for a body to arrive; then: 408.")
    gzip_min_bytes: int = Field(
        default=0, ge=0, description="Smallest answer to compress for clients that accept gzip; 0 = never."
    )
    max_top_k: int = Field(default=1000, ge=1, description="Largest top_k of a search, and largest page of documents.")
    max_results: int = Field(
        default=10_000, ge=1, description="Most results in one answer: queries times top_k; above: 422."
    )
    exact_documents: int = Field(
        default=20_000, ge=1, description="Most documents to search exactly; above: inverted lists."
    )
    max_index_bytes: int = Field(
        default=0, ge=0, description="Most memory for document vectors; above: 507. 0 = no limit."
    )

    memory_budget: int = Field(
        default=0,
        ge=0,
        description="Most resident bytes: above, the cache is emptied, then 429, documents 507. 0 = no limit.",
    )

    api_keys: SecretStr = Field(default=SecretStr(""), description="Comma-separated keys that may do everything.")
    api_keys_file: Path | None = Field(default=None, description="File with one such key a line.")
    read_api_keys: SecretStr = Field(
        default=SecretStr(""), description="Comma-separated keys that may not write documents."
    )
    cors_origins: str = Field(
        default="",
        description="Comma-separated origins whose pages may call, such as https://app.example; * = any; empty = none.",
    )
    page: bool = Field(default=True, description="Whether browsers get the search page at GET /; false: /docs.")
    metrics_port: int = Field(
        default=0,
        ge=0,
        le=65535,
        description="Separate port for GET /metrics, without a key; the main port then lacks it. 0 = none.",
    )
    metrics_open: bool = Field(default=True, description="Whether GET /metrics needs no key.")

    drain_delay_s: float = Field(
        default=1.0, ge=0, description="Seconds between SIGTERM (/ready turns 503) and the end of listening."
    )
    shutdown_timeout_s: int = Field(
        default=30, ge=1, description="Most seconds to finish accepted requests after that."
    )
    stall_timeout_s: float = Field(
        default=60.0, gt=0, description="Seconds without a finished text, while texts wait, until /ready says 503."
    )

    @field_validator("root_path")
    @classmethod
    def _is_a_path(cls, given: str) -> str:
        path = given.rstrip("/")
        if not ROOT_PATH.fullmatch(path) or {".", ".."} & set(path.split("/")):
            raise ValueError(
                f"{given} is no path to put before others; write it as /crosslet, of letters, digits and . _ ~ -"
            )
        return path

    @field_validator("cors_origins")
    @classmethod
    def _are_origins(cls, given: str) -> str:
        odd = next((one for one in _split(given, ",") if not ORIGIN.fullmatch(one)), None)
        if odd is not None:
            raise ValueError(f"{odd} is no origin; write it as https://app.example, without a path, or * for any")
        return given

    @model_validator(mode="after")
    def _limits_fit(self) -> Self:
        if self.max_body_bytes > self.max_inflight_bytes:
            raise ValueError(
                f"CROSSLET_MAX_BODY_BYTES is {self.max_body_bytes}, more than all requests together may hold: "
                f"{self.max_inflight_bytes} (CROSSLET_MAX_INFLIGHT_BYTES)"
            )
        if self.metrics_port and self.metrics_port == self.port:
            raise ValueError(
                f"CROSSLET_METRICS_PORT is {self.port}, the port of all else (CROSSLET_PORT); choose another, or 0"
            )
        return self

    @property
    def working_bytes(self) -> int:
        """What requests may take together: their bodies, answers, the cache, and what no setting bounds."""
        return WORKING_BYTES + self.max_inflight_bytes + self.max_unread_bytes + self.cache_bytes

    @property
    def documents_path(self) -> Path:
        """The SQLite file with the documents."""
        return self.data / "documents.sqlite3"

    def origins(self) -> frozenset[str]:
        """The origins of `cors_origins`, as browsers write them."""
        return frozenset(origin.lower() for origin in _split(self.cors_origins, ","))

    def keys(self) -> tuple[frozenset[str], frozenset[str]]:
        """The full keys and the read-only keys.

        Raises: StartError: a key setting is there but holds no key, the key file cannot be read, or a key is in both.
        """
        full = _listed(self.api_keys, "CROSSLET_API_KEYS")
        if self.api_keys_file is not None:
            try:
                from_file = _split(self.api_keys_file.read_text(encoding="utf-8-sig"), "\n")
            except (OSError, UnicodeDecodeError) as exc:
                raise StartError(f"key file {self.api_keys_file} cannot be read (CROSSLET_API_KEYS_FILE)") from exc
            if not from_file:  # whoever names a file wants a closed service
                raise StartError(f"key file {self.api_keys_file} holds no key (CROSSLET_API_KEYS_FILE)")
            full |= from_file
        read = _listed(self.read_api_keys, "CROSSLET_READ_API_KEYS")
        if full & read:
            raise StartError("a key is in both CROSSLET_API_KEYS and CROSSLET_READ_API_KEYS; it can be in one")
        return full, read


def unknown_settings() -> dict[str, str | None]:
    """Variables of the environment that look like settings and are none, each with the one that may be meant."""
    given = {name: name.upper().removeprefix(PREFIX) for name in os.environ if name.upper().startswith(PREFIX)}
    known = [name.upper() for name in Settings.model_fields]
    meant = {name: difflib.get_close_matches(end, known, n=1) for name, end in given.items() if end not in known}
    return {name: f"{PREFIX}{near[0]}" if near else None for name, near in sorted(meant.items())}


def _listed(setting: SecretStr, name: str) -> frozenset[str]:
    """The keys of a comma-separated setting; an empty one has none.

    Raises: StartError: it is not empty and still holds no key.
    """
    text = setting.get_secret_value()
    keys = _split(text, ",")
    if text and not keys:
        raise StartError(f"{name} is set but holds no key; unset it, or list keys between commas")
    return keys


def _split(text: str, separator: str) -> frozenset[str]:
    return frozenset(part.strip() for part in text.split(separator)) - {""}
