"""Every setting of the service, read once at start from `CROSSLET_*`."""

import os
import re
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import (
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    SecretStr,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_settings import BaseSettings, SettingsConfigDict

from service.documents.milvus.address import EMBEDDED
from service.documents.names import Mode
from service.errors import StartError
from service.keys import Grant, parse_keys
from service.process.address_space import WORKING_BYTES
from service.spelling import nearest

PREFIX = "CROSSLET_"
ROOT_PATH = re.compile(r"(/[A-Za-z0-9._~-]+)*")
LISTS = {  # setting -> what each part looks like, and how it is written
    "allowed_hosts": (r"[A-Za-z0-9._-]+", "a host name; write it like search.example, without a scheme, port or path"),
    "cors_origins": (
        r"\*|null|[A-Za-z][A-Za-z0-9+.-]*://[^/\s,*?#@]+",
        "an origin; write it like https://app.example, without a path, or * for any",
    ),
}
HERE = Path(__file__).resolve().parent
INSTALLED = HERE / "models"  # in a wheel
MODELS = INSTALLED if INSTALLED.is_dir() else HERE.parent / "models"  # else in a checkout
BUNDLED_MODEL, BUNDLED_RERANKER = MODELS / "default", MODELS / "reranker"

TokenIdsOf = Literal["off", "own", "cl100k_base"]
LongTexts = Literal["cut", "mean", "refuse"]
BOOLEANS = {**dict.fromkeys(("true", "yes", "on", "1"), "own"), **dict.fromkeys(("false", "no", "0"), "off")}

Port = Annotated[int, Field(ge=0, le=65535)]


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

    model: Path = Field(BUNDLED_MODEL, description="Folder of the artifact to serve; default: the bundled one.")
    fallback_model: Path | None = Field(
        None, description="Folder of the artifact to serve if the model fails its parity pack on this CPU."
    )
    reranker: Path | None = Field(
        None,
        description="Folder of a re-ranker for /rerank and searches; bundled: crosslet's own; none: order by cosines.",
    )
    rerank_weight: float | Literal["alone"] = Field(
        0.2, description="How far the re-ranker moves a score towards 1, in [0, 1]; alone: only the re-ranker scores."
    )
    host: str = Field("127.0.0.1", description="Address to listen on; a container sets 0.0.0.0.")
    port: Port = Field(8080, description="Port to listen on; 0 picks a free one.")
    root_path: str = Field("", description="Path prefix behind a proxy, such as /crosslet, stripped by it or not.")
    space: str = Field(
        "", description="Another model's space (`spaces` in /info) for documents and searches; default: the own one."
    )
    data: Path = Field(Path("data"), description="Folder of documents.sqlite3; created if missing.")
    index: str = Field(
        EMBEDDED, description="Store of documents: embedded, or milvus://host:19530/database; see docs/guide/milvus.md."
    )
    index_token: SecretStr = Field(SecretStr(""), description="Milvus' user:password, or its API key.")
    index_timeout_s: PositiveFloat = Field(10.0, description="Timeout of a call to Milvus in seconds; then: 503.")
    index_consistency: Literal["session", "strong"] = Field(
        "session",
        description="Writes of other services that a read of Milvus sees: all but the last second's; strong: all.",
    )
    search_mode: Mode | None = Field(
        None, description="Mode of a search that names none: dense, keywords or hybrid; default: hybrid; Milvus: dense."
    )
    min_confidence: float | None = Field(
        None,
        ge=0,
        le=1,
        description="Least confidence of a search with results; default: any.",
    )
    expected_answerable: float = Field(
        0.7, gt=0, lt=1, description="Expected share of queries that some document answers; confidence depends on it."
    )
    chunk: bool | None = Field(
        None,
        description="Whether to split long documents if a request does not say; default: in stores of this release.",
    )
    workers: int = Field(0, ge=0, le=1024, description="Encoding threads; 0 = one per usable CPU (affinity, quota).")
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field("INFO", description="Lowest severity to log.")

    max_texts: PositiveInt = Field(512, description="Maximum number of texts or documents in one request.")
    max_openai_texts: PositiveInt = Field(2048, description="Most texts of a request to /v1/embeddings or /api/embed.")
    max_passages: PositiveInt = Field(4096, description="Most passages of one request's long texts; above: 422.")
    long_texts: LongTexts = Field(
        "cut",
        description="What texts longer than the model reads get: the vector of their beginning, the mean of their "
        "passages' (mean), or a 422 (refuse); changing it mixes two kinds of vectors.",
    )
    max_text_chars: PositiveInt = Field(
        100_000, description="Longest text, in characters or token ids, before truncation; above: 422."
    )
    token_ids: TokenIdsOf = Field(
        "cl100k_base",
        description="Whose token ids /v1/embeddings takes: OpenAI's cl100k_base (by crosslet[openai-ids]), own, off.",
    )
    max_queue_texts: PositiveInt = Field(512, description="Requests are accepted while fewer texts wait; else: 429.")
    max_queue_reads: PositiveInt = Field(1024, description="Most waiting document look-ups and searches; above: 429.")
    request_timeout_s: PositiveFloat = Field(
        30.0, description="Timeout in seconds, of texts that wait for a worker (429), of filters and splitting (422)."
    )
    cache_bytes: NonNegativeInt = Field(0, description="Most memory of the cache of recent vectors; 0 = no cache.")
    max_body_bytes: PositiveInt = Field(4_000_000, description="Largest request body; above: 413.")
    max_inflight_bytes: PositiveInt = Field(64_000_000, description="Most memory of all parsed bodies; above: 429.")
    max_unread_bytes: PositiveInt = Field(
        64_000_000, description="Maximum bytes of large answers (over 64 KiB) that clients have not read; above: 429."
    )
    body_timeout_s: PositiveFloat = Field(30.0, description="Timeout of a request body, in seconds; then: 408.")
    gzip_min_bytes: NonNegativeInt = Field(0, description="Smallest answer to compress with gzip; 0 = never.")
    max_top_k: PositiveInt = Field(1000, description="Largest top_k of a search, and largest page of documents.")
    max_results: PositiveInt = Field(10_000, description="Most results of one answer, queries x top_k; above: 422.")
    max_line_errors: PositiveInt = Field(
        100, description="Errors, and ids of truncated texts, listed in the answer to an upload; all are counted."
    )
    max_bad_lines: PositiveInt = Field(
        1000, description="Lines in a row without a document, blank ones too, that end an upload of lines: 422."
    )
    max_facets: PositiveInt = Field(20, description="Maximum number of fields in `facets`; above: 422.")
    max_facet_values: PositiveInt = Field(100, description="Values counted for a field of `facets`: the most frequent.")
    exact_documents: PositiveInt = Field(
        20_000, description="Most passages (short documents have one) to search exactly; above: inverted lists."
    )
    max_collections: PositiveInt = Field(32, description="Most collections, with the default one; above: 507.")
    max_index_bytes: NonNegativeInt = Field(0, description="Most memory of all vectors; above: 507. 0 = no limit.")

    memory_budget: NonNegativeInt = Field(
        0, description="Maximum resident bytes: above, the cache is emptied, then: 429, documents 507. 0 = no limit."
    )

    api_keys: SecretStr = Field(
        SecretStr(""), description="Comma-separated keys; KEY write=shop reaches one collection (docs/guide/keys.md)."
    )
    api_keys_file: Path | None = Field(None, description="File with a key a line, written as in CROSSLET_API_KEYS.")
    read_api_keys: SecretStr = Field(
        SecretStr(""), description="Comma-separated keys that may neither change nor back up documents."
    )
    allowed_hosts: str = Field(
        "",
        description="Comma-separated hosts: without keys, requests must use one, localhost or an IP address (421).",
    )
    cors_origins: str = Field("", description="Comma-separated CORS origins, such as https://app.example; * = any.")
    page: bool = Field(True, description="Whether browsers get the search page at GET /; false: /docs.")
    mcp: bool = Field(False, description="Whether POST /mcp has tools for assistants; see docs/guide/mcp.md.")
    metrics_port: Port = Field(0, description="Separate port for GET /metrics, without a key; 0 = the main port.")
    metrics_open: bool | None = Field(
        None, description="Whether GET /metrics works without a key; default: unless a key reaches some collections."
    )
    slow_search_s: PositiveFloat = Field(1.0, description="Seconds from which crosslet_slow_searches counts a search.")

    keep_alive_s: PositiveInt = Field(
        5,
        description="Seconds until an idle connection is closed; behind a load balancer more than its own, such as 75.",
    )
    drain_delay_s: NonNegativeFloat = Field(
        1.0, description="Seconds from SIGTERM (/ready turns 503) until the service stops listening."
    )
    shutdown_timeout_s: PositiveInt = Field(30, description="Timeout of accepted requests after that, in seconds.")
    stall_timeout_s: PositiveFloat = Field(
        60.0, description="Seconds without progress, while texts wait, until /ready turns 503."
    )

    @field_validator("reranker", mode="before")
    @classmethod
    def _may_be_bundled(cls, given: object) -> object:
        return BUNDLED_RERANKER if given == "bundled" else given

    @field_validator("token_ids", mode="before")
    @classmethod
    def _was_a_boolean(cls, given: object) -> object:
        return BOOLEANS.get(str(given).lower(), given)

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

    @field_validator(*LISTS)
    @classmethod
    def _are_in_form(cls, given: str, info: ValidationInfo) -> str:
        pattern, form = LISTS[str(info.field_name)]
        for part in _split(given, ","):
            if not re.fullmatch(pattern, part):
                raise ValueError(f"{part} is not {form}")
        return given

    @model_validator(mode="after")
    def _limits_fit(self) -> Self:
        if self.max_body_bytes > self.max_inflight_bytes:
            raise ValueError(
                f"CROSSLET_MAX_BODY_BYTES is {self.max_body_bytes}, more than the limit of all requests together: "
                f"{self.max_inflight_bytes} (CROSSLET_MAX_INFLIGHT_BYTES)"
            )
        if self.metrics_port and self.metrics_port == self.port:
            raise ValueError(f"CROSSLET_METRICS_PORT is {self.port}, the same as CROSSLET_PORT; choose another, or 0")
        return self

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

    def keys(self) -> dict[str, Grant]:
        """Return what each key may reach; empty: the service is open.

        Raises: StartError: an entry is malformed, a setting or file has no key, the file cannot be read, or a key has
                two entries that differ.
        """
        keys: dict[str, Grant] = {}
        read = self.read_api_keys.get_secret_value()
        if read:
            keys = parse_keys(read.split(","), "CROSSLET_READ_API_KEYS", read_only=True)
        given = self.api_keys.get_secret_value()
        sources = [(given.split(","), "CROSSLET_API_KEYS")] if given else []
        if self.api_keys_file is not None:  # naming a file means that the service must not be open
            name = f"key file {self.api_keys_file} (CROSSLET_API_KEYS_FILE)"
            try:
                sources.append((self.api_keys_file.read_text(encoding="utf-8-sig").split("\n"), name))
            except (OSError, UnicodeDecodeError) as exc:
                raise StartError(f"{name} cannot be read") from exc
        for entries, name in sources:
            for key, grant in parse_keys(entries, name).items():
                if keys.setdefault(key, grant) != grant:
                    raise StartError(f"{name} has a key that another setting has with other rights; remove it from one")
        return keys

    @property
    def metrics_need_no_key(self) -> bool:
        """Whether GET /metrics, which counts the documents of every collection, works without a key."""
        if self.metrics_open is None:
            return all(grant.reads_all for grant in self.keys().values())
        return self.metrics_open


def unknown_settings() -> dict[str, str | None]:
    """Return unknown `CROSSLET_*` variables of the environment, each with the setting that may be meant."""
    given = {name: name.upper().removeprefix(PREFIX) for name in sorted(os.environ) if name.upper().startswith(PREFIX)}
    known = [name.upper() for name in Settings.model_fields]
    meant = {name: nearest(end, known) for name, end in given.items() if end not in known}
    return {name: near and PREFIX + near for name, near in meant.items()}


def _split(text: str, separator: str) -> frozenset[str]:
    return frozenset(part.strip() for part in text.split(separator)) - {""}
