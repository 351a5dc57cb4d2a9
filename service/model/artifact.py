"""The artifact contract: one folder, one model. Reads and checks its files, without ONNX Runtime or torch.

model.onnx       inputs `input_ids`, `attention_mask` int64 (B, L); output of an encoder `sentence_embedding` float32
                 (B, dim), norm 1; of a re-ranker `score` float32 (B, 1), in [0, 1]; all tensors inside
tokenizer.json   a `tokenizers` file with its post-processor, no id beyond the graph's table; the consumer cuts and pads
manifest.json    `Manifest`: what the model is, where it came from, its prompts, the sha256 of every other file
parity.json      `ParityPack`: texts with the token ids and vectors the model must give on any machine; of a re-ranker
                 `PairParityPack`: pairs of texts with their scores
README.md        the model card
space.NAME.npy   one for each of the manifest's `spaces`: float16 (E, dim + 1), an affine map into another model's space
                 of E dims, with the bias in the last column
"""

import dataclasses
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import ConfigDict, Field, PositiveInt, TypeAdapter, ValidationError

from service.errors import ArtifactError as ArtifactError  # part of the contract: readers catch it
from service.model.confidence import DENSE, HYBRID, VERSION, ConfidenceModel
from service.model.onnx_file import external_files
from service.process.files import LFS_POINTER, is_lfs_pointer, sha256_of

SCHEMA_VERSION: Final = 1
LFS_WAY_OUT = "is a Git LFS pointer, not the file itself: run `git lfs pull` in its repository"
MODEL_FILE = "model.onnx"
TOKENIZER_FILE = "tokenizer.json"
MANIFEST_FILE = "manifest.json"
PARITY_FILE = "parity.json"
CARD_FILE = "README.md"
REQUIRED_FILES = (MODEL_FILE, TOKENIZER_FILE, PARITY_FILE, CARD_FILE)

Activations = Literal["dynamic", "static"]  # int8: steps found for each pass, or fixed: then texts may share a pass
Kind = Literal["bi-encoder", "cross-encoder"]
Padding = Literal["computed", "skipped"]  # what padded places of a batch cost: as much as tokens, or next to nothing

SchemaVersion = Literal[1]

T = TypeVar("T")


@dataclass(frozen=True)
class FileEntry:
    """The sha256 (hex) and the size of one file."""

    sha256: str
    size_bytes: int


@dataclass(frozen=True)
class DataLicence:
    """One source of training pairs, and its licence."""

    source: str
    licence: str
    url: str
    pairs: int


@dataclass(frozen=True)
class Space:
    """The space of another model, into which the artifact's vectors can be mapped.

    identity: of the other model, from `training.models.teacher.teacher_identity`.  pairs: used to fit the map.
    english_cosine: mean cosine between mapped vectors of held-out English sentences and the other model's vectors.
    other_cosine: the same for their translations, with the other model's vectors of the English sentences.
    """

    name: Annotated[str, Field(min_length=1)]
    identity: str
    dim: PositiveInt
    file: str
    pairs: int
    english_cosine: float
    other_cosine: float


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What a model is and where it came from: the contents of `manifest.json`."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    schema_version: SchemaVersion
    name: str
    kind: Kind = "bi-encoder"
    dim: PositiveInt  # of a re-ranker 1: its score
    max_length: PositiveInt  # tokens, special tokens included
    languages: tuple[str, ...]
    precision: Literal["int8", "fp32"]
    parameters: int
    fingerprint: str
    files: Mapping[str, FileEntry]  # every file of the folder except manifest.json
    training: Mapping[str, Any]  # resolved configuration, git commit, pairs seen
    evaluation: Mapping[str, Any]
    data_licences: tuple[DataLicence, ...]
    created_by: str
    created_at: str  # ISO 8601
    activations: Activations = "dynamic"
    padding: Padding = "computed"
    prompts: Mapping[str, str] = field(default_factory=dict)  # by name; an empty text means no prompt
    default_prompt_name: str | None = None  # the prompt of texts for which none is named
    truncate_dim: int | None = None  # equals `dim` if the checkpoint has more dimensions
    confidence: ConfidenceModel | None = None
    spaces: tuple[Space, ...] = ()  # of other models; the fingerprint identifies the model's own space
    folds_text: bool = False  # words in capitals and vowel marks (`model.folding`)

    @property
    def min_scores(self) -> dict[str, float]:
        """Recommended `min_score` of a search by language, `all` for any of them; empty where none was measured."""
        served = self.evaluation.get("served")
        scores = served.get("search_min_score") if isinstance(served, Mapping) else None
        if not isinstance(scores, Mapping):
            return {}
        return {name: float(score) for name, score in scores.items() if isinstance(score, int | float)}

    @cached_property
    def confidence_fingerprint(self) -> str:
        """The identity of vectors and confidence: what a collection's correction was fitted for."""
        weights = None if self.confidence is None else dataclasses.asdict(self.confidence)
        return hashlib.sha256(json.dumps([self.fingerprint, weights], sort_keys=True).encode()).hexdigest()

    def to_json(self) -> str:
        """Return the text of manifest.json. Unset fields are left out, so that older services can read it."""
        facts = dataclasses.asdict(self)
        unset = [
            name
            for name in ("prompts", "default_prompt_name", "truncate_dim", "spaces", "confidence", "folds_text")
            if not facts[name]
        ]
        kept = {name: value for name, value in facts.items() if name not in unset}
        return json.dumps(kept, ensure_ascii=False, indent=2) + "\n"


@dataclass(frozen=True)
class _Pack:
    schema_version: SchemaVersion

    def to_json(self) -> str:
        """Return the text of parity.json."""
        return json.dumps(dataclasses.asdict(self), ensure_ascii=False) + "\n"


@dataclass(frozen=True)
class ParityPack(_Pack):
    """Texts in the model's languages, with token ids and vectors computed at export behind the default prompt.

    input_ids: a row of token ids for each text, with prompt and special tokens.
    embeddings: a unit vector of `dim` floats for each text.
    """

    min_cosine: float
    texts: tuple[str, ...]
    input_ids: tuple[tuple[int, ...], ...]
    embeddings: tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class PairParityPack(_Pack):
    """Pairs in the model's languages, with token ids and scores computed at export.

    max_difference: largest difference of a score from the recorded one.
    pairs: query and passage.
    input_ids: one row of token ids a pair, specials included, cut to what the model reads.
    scores: in [0, 1].
    """

    max_difference: float
    pairs: tuple[tuple[str, str], ...]
    input_ids: tuple[tuple[int, ...], ...]
    scores: tuple[float, ...]


def fingerprint_of(
    *,
    model_sha256: str,
    tokenizer_sha256: str,
    prompts: Mapping[str, str] | None = None,
    default_prompt_name: str | None = None,
) -> str:
    """Return the identity of a vector space: models with the same fingerprint give the same vectors.

    Whether they fold texts is no part of it: that moves a text within the space.
    """
    lines = [model_sha256, tokenizer_sha256]
    if prompts:  # prompts change vectors; without any, fingerprints stay compatible with older artifacts
        lines.append(json.dumps([prompts, default_prompt_name], sort_keys=True))
    return hashlib.sha256("".join(f"{line}\n" for line in lines).encode()).hexdigest()


def describe_files(folder: Path) -> dict[str, FileEntry]:
    """Hash every file of an artifact folder except its manifest, sorted by name."""
    paths = sorted(path for path in folder.iterdir() if path.is_file() and path.name != MANIFEST_FILE)
    return {path.name: FileEntry(sha256_of(path), path.stat().st_size) for path in paths}


def load_manifest(folder: Path, *, setting: str = "CROSSLET_MODEL") -> Manifest:
    """Read and check `manifest.json`; the files it names are checked by `verify_files`.

    Args:   setting: that names the folder, for the message.
    Raises: ArtifactError: the folder or manifest is missing, not JSON, of another schema, or contradicts itself.
    """
    if not folder.is_dir():
        raise ArtifactError(f"model folder {folder} does not exist ({setting})")
    manifest = read_part(folder, MANIFEST_FILE, Manifest)
    for fault in _faults(manifest):
        raise ArtifactError(f"{folder}: {MANIFEST_FILE} {fault}")
    return manifest


def _faults(manifest: Manifest) -> Iterator[str]:
    """Say where a manifest contradicts itself. A later check may rely on earlier ones."""
    if missing := sorted(set(REQUIRED_FILES) - set(manifest.files)):
        yield f"does not list {', '.join(missing)}"
    for name in manifest.files:
        if Path(name).name != name or name == MANIFEST_FILE:
            yield f"lists {name!r}, which is not the name of a file in the folder"
    default, prompts = manifest.default_prompt_name, manifest.prompts
    if default is not None and default not in prompts:
        yield f"has default_prompt_name {default!r}, but its prompts are {', '.join(prompts) or 'none'}"
    if manifest.truncate_dim not in {None, manifest.dim}:
        yield f"has truncate_dim {manifest.truncate_dim} and dim {manifest.dim}; they must be equal"
    names = [space.name for space in manifest.spaces]
    for space in manifest.spaces:
        if names.count(space.name) > 1:
            yield f"has two spaces named {space.name!r}; names must differ"
        if space.file not in manifest.files:
            yield f"has a space {space.name!r} in {space.file!r}, which it does not list"
    if (confidence := manifest.confidence) is not None:
        for weights, features in ((confidence.dense, DENSE), (confidence.hybrid, HYBRID)):
            count = len(features) - (VERSION - confidence.version)  # each has one more at the end
            sizes = [len(weights.means), len(weights.deviations), len(weights.coefficients)]
            if sizes != [count, count, count * (count + 3) // 2]:
                yield f"has a confidence of {sizes} weights; {count} features take others"
    expected = fingerprint_of(
        model_sha256=manifest.files[MODEL_FILE].sha256,
        tokenizer_sha256=manifest.files[TOKENIZER_FILE].sha256,
        prompts=prompts,
        default_prompt_name=default,
    )
    if manifest.fingerprint != expected:
        yield f"has fingerprint {manifest.fingerprint[:12]}; its hashes give {expected[:12]}"


def verify_files(folder: Path, manifest: Manifest) -> None:
    """Compare every file with the size and sha256 that the manifest records.

    Raises: ArtifactError: a file differs, or the graph reads another file; the message names folder, file and
            difference.
    """
    for name, entry in manifest.files.items():
        path = folder / name
        if not path.is_file():
            raise ArtifactError(f"{folder}: {name} is missing")
        size_bytes = path.stat().st_size
        if is_lfs_pointer(path):
            raise ArtifactError(f"{folder}: {name} {LFS_WAY_OUT}")
        if size_bytes != entry.size_bytes:
            raise ArtifactError(f"{folder}: {name} has {size_bytes} bytes; the manifest says {entry.size_bytes}")
        sha256 = sha256_of(path)
        if sha256 != entry.sha256:
            raise ArtifactError(f"{folder}: {name} has sha256 {sha256[:12]}; the manifest says {entry.sha256[:12]}")
    try:
        others = sorted(external_files(folder / MODEL_FILE))
    except ValueError as exc:
        raise ArtifactError(f"{folder}: {MODEL_FILE} cannot be loaded: it is no ONNX graph ({exc})") from exc
    if others:  # even a listed one: the fingerprint would not change with it
        raise ArtifactError(
            f"{folder}: {MODEL_FILE} reads tensors from another file, {others[0]!r}: export it with its tensors inside"
        )


def load_parity(folder: Path, manifest: Manifest) -> ParityPack:
    """Read `parity.json` and check its shape against the manifest.

    Raises: ArtifactError: missing, not JSON, empty, ragged, or of another dimension.
    """
    parity = read_part(folder, PARITY_FILE, ParityPack)
    _check_counts(folder, texts=parity.texts, id_rows=parity.input_ids, vectors=parity.embeddings)
    for vector in parity.embeddings:
        if len(vector) != manifest.dim:
            raise ArtifactError(
                f"{folder}: {PARITY_FILE} has a vector of {len(vector)} floats; the manifest says {manifest.dim}"
            )
    return parity


def load_pair_parity(folder: Path) -> PairParityPack:
    """Read a re-ranker's `parity.json`.

    Raises: ArtifactError: missing, not JSON, empty, or of different counts.
    """
    parity = read_part(folder, PARITY_FILE, PairParityPack)
    _check_counts(folder, pairs=parity.pairs, id_rows=parity.input_ids, scores=parity.scores)
    return parity


def _check_counts(folder: Path, **parts: Sequence[object]) -> None:
    counts = {len(part) for part in parts.values()}
    if len(counts) > 1 or counts == {0}:
        written = ", ".join(f"{len(part)} {name.replace('_', ' ')}" for name, part in parts.items())
        raise ArtifactError(f"{folder}: {PARITY_FILE} has {written}")


def read_part(folder: Path, name: str, kind: type[T]) -> T:
    """Read a JSON file of an artifact.

    Raises: ArtifactError: it is missing, not JSON, or not of this kind or schema.
    """
    try:
        content = (folder / name).read_bytes()
    except OSError as exc:
        raise ArtifactError(f"{folder}: {name} cannot be read ({exc.strerror})") from exc
    if content.startswith(LFS_POINTER):
        raise ArtifactError(f"{folder}: {name} {LFS_WAY_OUT}")
    try:
        return TypeAdapter(kind).validate_json(content)
    except ValidationError as exc:
        first = exc.errors(include_input=False, include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        raise ArtifactError(f"{folder}: {name}: {where}: {first['msg']}") from exc
