"""Every setting of the service, read once at start from `CROSSLET_*`."""

import difflib
import os
import re
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, SecretStr, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from service.documents.milvus.address import EMBEDDED
from service.documents.names import Mode
from service.errors import StartError
from service.process.address_space import WORKING_BYTES

PREFIX = "CROSSLET_"
ORIGIN = re.compile(r"\*|null|[A-Za-z][A-Za-z0-9+.-]*://[^/\s,*?#@]+")
HOST_NAME = re.compile(r"[A-Za-z0-9._-]+")
ROOT_PATH = re.compile(r"(/[A-Za-z0-9._~-]+)*")
HERE = Path(__file__).resolve().parent
INSTALLED = HERE / "models"  # in a wheel
MODELS = INSTALLED if INSTALLED.is_dir() else HERE.parent / "models"  # else in a checkout
BUNDLED_MODEL, BUNDLED_RERANKER = MODELS / "default", MODELS / "reranker"


class Settings(BaseSettings):
    """The service's configuration; each field is the environment variable `CROSSLET_<NAME>`."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_ignore_empty=True,  # compose files leave variables empty, and an empty host would mean every address
        allow_inf_nan=False,
        frozen=True,
        extra="ignore",
        protected_namespaces=(),
    )

    model: Path = Field(default=BUNDLED_MODEL, description="Folder of the artifact to serve; default: the bundled one.")
    fallback_model: Path | None = Field(
        default=None, description="Folder of the artifact to serve if the model fails its parity pack on this CPU."
    )
    reranker: Path | None = Field(
        default=None,
        description="Folder of a re-ranker's artifact, for /rerank and searches; bundled: the one that comes with "
        "crosslet; none: passages are ordered by their cosines.",
    )
    rerank_weight: float | Literal["alone"] = Field(
        default=0.2,
        description="How far the re-ranker moves a cosine or a search's score towards 1: in [0, 1], higher for a "
        "stronger re-ranker; alone: only the re-ranker scores.",
    )
    host: str = Field(default="127.0.0.1", description="Address to listen on; a container sets 0.0.0.0.")
    port: int = Field(default=8080, ge=0, le=65535, description="Port to listen on; 0 picks a free one.")
    root_path: str = Field(
        default="",
        description="Path prefix behind a proxy, such as /crosslet, whether or not the proxy strips it.",
    )
    space: str = Field(
        default="",
        description="Another model's space (`spaces` in /info) for documents and searches; default: the model's own.",
    )
    data: Path = Field(default=Path("data"), description="Folder of documents.sqlite3; created if missing.")
    index: str = Field(
        default=EMBEDDED,
        description="Where documents are stored: embedded, or milvus://host:19530/database; see docs/guide/milvus.md.",
    )
    index_token: SecretStr = Field(default=SecretStr(""), description="Milvus' user:password, or its API key.")
    index_timeout_s: float = Field(default=10.0, gt=0, description="Timeout of a call to Milvus in seconds; then: 503.")
    search_mode: Mode | None = Field(
        default=None,
        description="What a search without a mode is: dense, keywords or hybrid; default: hybrid; with Milvus: dense.",
    )
    chunk: bool | None = Field(
        default=None,
        description="Whether long documents are split into passages where a request does not say; default: in stores "
        "that this release made, not in older ones, nor with Milvus.",
    )
    workers: int = Field(
        default=0, ge=0, le=1024, description="Encoding threads; 0 = one per usable CPU (affinity, cgroup quota)."
    )
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        default="INFO", description="Lowest severity to log."
    )

    max_texts: int = Field(default=512, ge=1, description="Maximum number of texts or documents in one request.")
    max_openai_texts: int = Field(
        default=2048, ge=1, description="Maximum number of texts in a request to /v1/embeddings; OpenAI's own limit."
    )
    max_passages: int = Field(
        default=4096, ge=1, description="Maximum number of passages of the documents of one request; above: 422."
    )
    max_text_chars: int = Field(
        default=100_000,
        ge=1,
        description="Longest text, in characters or token ids; above: 422. Texts are tokenised whole, then truncated.",
    )
    token_ids: bool = Field(
        default=False,
        description="Whether /v1/embeddings takes token ids; another tokenizer's ids would give wrong vectors.",
    )
    max_queue_texts: int = Field(
        default=512, ge=1, description="Requests are accepted while fewer texts wait for a worker; else: 429."
    )
    max_queue_reads: int = Field(
        default=1024, ge=1, description="Maximum number of waiting document look-ups and searches; above: 429."
    )
    request_timeout_s: float = Field(
        default=30.0,
        gt=0,
        description="Timeout in seconds, of texts that wait for a worker (429), of filters and splitting (422).",
    )
    cache_bytes: int = Field(
        default=0, ge=0, description="Maximum memory of the cache of recent texts' vectors; 0 = no cache."
    )
    max_body_bytes: int = Field(default=4_000_000, ge=1, description="Largest request body; above: 413.")
    max_inflight_bytes: int = Field(
        default=64_000_000,
        ge=1,
        description="Maximum memory of the parsed bodies of all requests; above: 429.",
    )
    max_unread_bytes: int = Field(
        default=64_000_000,
        ge=1,
        description="Maximum bytes of large answers (over 64 KiB) that clients have not read yet; above: 429.",
    )
    body_timeout_s: float = Field(default=30.0, gt=0, description="Timeout of a request body, in seconds; then: 408.")
    gzip_min_bytes: int = Field(
        default=0, ge=0, description="Smallest answer to compress, for clients that accept gzip; 0 = never."
    )
    max_top_k: int = Field(default=1000, ge=1, description="Largest top_k of a search, and largest page of documents.")
    max_results: int = Field(
        default=10_000, ge=1, description="Maximum number of results in one answer: queries x top_k; above: 422."
    )
    max_line_errors: int = Field(
        default=100,
        ge=1,
        description="Errors, and ids of truncated texts, listed in the answer to an upload of lines; all are counted.",
    )
    max_bad_lines: int = Field(
        default=1000,
        ge=1,
        description="Lines in a row without a document, blank ones too, that end an upload of lines: 422.",
    )
    max_facets: int = Field(default=20, ge=1, description="Maximum number of fields in `facets`; above: 422.")
    max_facet_values: int = Field(
        default=100, ge=1, description="Values counted for a field of `facets`: the most frequent ones."
    )
    exact_documents: int = Field(
        default=20_000,
        ge=1,
        description="Maximum number of passages (short documents have one) to search exactly; above: inverted lists.",
    )
    max_collections: int = Field(
        default=32, ge=1, description="Maximum number of named collections, with the default one; above: 507."
    )
    max_index_bytes: int = Field(
        default=0, ge=0, description="Maximum memory of the vectors of all collections; above: 507. 0 = no limit."
    )

    memory_budget: int = Field(
        default=0,
        ge=0,
        description="Maximum resident bytes: above, the cache is emptied, then: 429, documents 507. 0 = no limit.",
    )

    api_keys: SecretStr = Field(default=SecretStr(""), description="Comma-separated keys with full access.")
    api_keys_file: Path | None = Field(default=None, description="File with one full-access key a line.")
    read_api_keys: SecretStr = Field(
        default=SecretStr(""), description="Comma-separated keys that may neither change nor back up documents."
    )
    allowed_hosts: str = Field(
        default="",
        description="Comma-separated host names, such as search.example: without keys, requests must use one of them, "
        "localhost or an IP address; else: 421.",
    )
    cors_origins: str = Field(
        default="",
        description="Comma-separated origins for CORS, such as https://app.example; * = any, empty = none.",
    )
    page: bool = Field(default=True, description="Whether browsers get the search page at GET /; false: /docs.")
    metrics_port: int = Field(
        default=0,
        ge=0,
        le=65535,
        description="Separate port for GET /metrics, without a key, instead of the main port. 0 = none.",
    )
    metrics_open: bool = Field(default=True, description="Whether GET /metrics works without a key.")

    keep_alive_s: int = Field(
        default=5,
        ge=1,
        description="Seconds until an idle connection is closed; behind a load balancer more than its own, such as 75.",
    )
    drain_delay_s: float = Field(
        default=1.0, ge=0, description="Seconds from SIGTERM (/ready turns 503) until the service stops listening."
    )
    shutdown_timeout_s: int = Field(
        default=30, ge=1, description="Timeout of accepted requests after that, in seconds."
    )
    stall_timeout_s: float = Field(
        default=60.0, gt=0, description="Seconds without progress, while texts wait, until /ready turns 503."
    )

    @field_validator("reranker", mode="before")
    @classmethod
    def _may_be_bundled(cls, given: object) -> object:
        return BUNDLED_RERANKER if given == "bundled" else given

    @field_validator("rerank_weight", mode="before")
    @classmethod
    def _is_a_weight(cls, given: object) -> object:
        try:
            is_weight = given == "alone" or 0 <= float(str(given)) <= 1
        except ValueError:
            is_weight = False
        if not is_weight:
            raise ValueError(f"{given} is neither a number in [0, 1] nor the word alone")
        return given

    @field_validator("root_path")
    @classmethod
    def _is_a_path(cls, given: str) -> str:
        path = given.rstrip("/")
        if not ROOT_PATH.fullmatch(path) or {".", ".."} & set(path.split("/")):
            raise ValueError(f"{given} is not a path prefix; write it like /crosslet, with letters, digits and . _ ~ -")
        return path

    @field_validator("allowed_hosts")
    @classmethod
    def _are_host_names(cls, given: str) -> str:
        odd = next((name for name in _split(given, ",") if not HOST_NAME.fullmatch(name)), None)
        if odd is not None:
            raise ValueError(f"{odd} is not a host name; write it like search.example, without a scheme, port or path")
        return given

    @field_validator("cors_origins")
    @classmethod
    def _are_origins(cls, given: str) -> str:
        odd = next((origin for origin in _split(given, ",") if not ORIGIN.fullmatch(origin)), None)
        if odd is not None:
            raise ValueError(f"{odd} is not an origin; write it like https://app.example, without a path, or * for any")
        return given

    @model_validator(mode="after")
    def _limits_fit(self) -> Self:
        if self.max_body_bytes > self.max_inflight_bytes:
            raise ValueError(
                f"CROSSLET_MAX_BODY_BYTES is {self.max_body_bytes}, more than the limit of all requests together: "
                f"{self.max_inflight_bytes} (CROSSLET_MAX_INFLIGHT_BYTES)"
            )
        if self.index != EMBEDDED and self.search_mode in {"keywords", "hybrid"}:
            raise ValueError(
                f"CROSSLET_SEARCH_MODE is {self.search_mode}, but keywords are kept beside embedded documents only, "
                "not in Milvus (CROSSLET_INDEX); leave it out"
            )
        if self.index != EMBEDDED and self.chunk:
            raise ValueError(
                "CROSSLET_CHUNK is true, but long documents are split beside embedded documents only, not in Milvus "
                "(CROSSLET_INDEX); leave it out"
            )
        if self.metrics_port and self.metrics_port == self.port:
            raise ValueError(f"CROSSLET_METRICS_PORT is {self.port}, the same as CROSSLET_PORT; choose another, or 0")
        return self

    @property
    def default_mode(self) -> Mode:
        """The mode of a search that names none."""
        return self.search_mode or ("hybrid" if self.index == EMBEDDED else "dense")

    @property
    def working_bytes(self) -> int:
        """Maximum memory for requests: bodies, answers, the cache, and what no setting bounds."""
        return WORKING_BYTES + self.max_inflight_bytes + self.max_unread_bytes + self.cache_bytes

    @property
    def documents_path(self) -> Path:
        """The SQLite file of the documents."""
        return self.data / "documents.sqlite3"

    def hosts(self) -> frozenset[str]:
        """Return the names of this service, `allowed_hosts` and localhost, in lower case without a final dot."""
        return frozenset({"localhost"} | {name.lower().removesuffix(".") for name in _split(self.allowed_hosts, ",")})

    def origins(self) -> frozenset[str]:
        """Return the origins of `cors_origins` in lower case, as browsers send them."""
        return frozenset(origin.lower() for origin in _split(self.cors_origins, ","))

    def keys(self) -> tuple[frozenset[str], frozenset[str]]:
        """Return the full keys and the read-only keys.

        Raises: StartError: a setting or file has no key, the file cannot be read, or a key is in both lists.
        """
        full = _listed(self.api_keys, "CROSSLET_API_KEYS")
        if self.api_keys_file is not None:
            try:
                from_file = _split(self.api_keys_file.read_text(encoding="utf-8-sig"), "\n")
            except (OSError, UnicodeDecodeError) as exc:
                raise StartError(f"key file {self.api_keys_file} cannot be read (CROSSLET_API_KEYS_FILE)") from exc
            if not from_file:  # naming a file means that the service must not be open
                raise StartError(f"key file {self.api_keys_file} holds no key (CROSSLET_API_KEYS_FILE)")
            full |= from_file
        read = _listed(self.read_api_keys, "CROSSLET_READ_API_KEYS")
        if full & read:
            raise StartError("a key is in both CROSSLET_API_KEYS and CROSSLET_READ_API_KEYS; remove it from one")
        return full, read


def unknown_settings() -> dict[str, str | None]:
    """Return unknown `CROSSLET_*` variables of the environment, each with the setting that may be meant."""
    given = {name: name.upper().removeprefix(PREFIX) for name in os.environ if name.upper().startswith(PREFIX)}
    known = [name.upper() for name in Settings.model_fields]
    meant = {name: difflib.get_close_matches(end, known, n=1) for name, end in given.items() if end not in known}
    return {name: f"{PREFIX}{near[0]}" if near else None for name, near in sorted(meant.items())}


def _listed(setting: SecretStr, name: str) -> frozenset[str]:
    """Return the keys of a comma-separated setting, which may be empty.

    Raises: StartError: it is not empty, but holds no key.
    """
    text = setting.get_secret_value()
    keys = _split(text, ",")
    if text and not keys:
        raise StartError(f"{name} is set but holds no key; unset it, or separate keys by commas")
    return keys


def _split(text: str, separator: str) -> frozenset[str]:
    return frozenset(part.strip() for part in text.split(separator)) - {""}
