"""Maps vectors into the spaces of other models, by the artifact's affine maps.

B texts, D dims of the artifact, E dims of the other model
"""

import dataclasses
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt

from service.errors import ArtifactError, InvalidInput
from service.model.artifact import Manifest

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class SpaceMap:
    """An affine map, followed by normalisation. weight_ED, bias_E: float32."""

    weight_ED: Floats
    bias_E: Floats

    @classmethod
    def from_array(cls, affine: npt.NDArray[np.floating]) -> Self:
        """Make a map from the artifact's array, (E, D + 1), with the bias in the last column."""
        affine32 = affine.astype(np.float32)
        return cls(np.ascontiguousarray(affine32[:, :-1]), affine32[:, -1].copy())

    @property
    def dim(self) -> int:
        """E, the dims of the other space."""
        return len(self.bias_E)

    def __call__(self, embedding_BD: Floats) -> Floats:
        """Return vectors of norm 1 in the other space: (B, E) float32."""
        # einsum, not BLAS: a vector must not depend on the others.
        mapped_BE = np.einsum("bd,ed->be", embedding_BD, self.weight_ED) + self.bias_E
        norm_B1 = np.sqrt(np.einsum("be,be->b", mapped_BE, mapped_BE))[:, None]
        unit_BE: Floats = mapped_BE / np.maximum(norm_B1, np.finfo(np.float32).tiny)
        return unit_BE


@dataclass(frozen=True)
class Spaces:
    """The maps of an artifact, by the name of the other model's space."""

    maps: Mapping[str, SpaceMap] = field(default_factory=dict)

    @classmethod
    def load(cls, folder: Path, manifest: Manifest) -> Self:
        """Read the maps of an artifact.

        Raises: ArtifactError: a file is not an array of finite numbers in the manifest's shape.
        """
        return cls({space.name: _load(folder / space.file, (space.dim, manifest.dim + 1)) for space in manifest.spaces})

    def chosen(self, name: str | None, *, place: str = "") -> SpaceMap | None:
        """Return the map that a request names; None for the artifact's own space.

        Args:   place: prefix of the field's name in error messages.
        Raises: InvalidInput: there is no such space.
        """
        if name is None:
            return None
        if not self.maps:
            raise InvalidInput(f"{place}space is set, but this model has only its own space: leave it out")
        if name not in self.maps:
            raise InvalidInput(f"{place}space is not one of this model's spaces: {', '.join(self.maps)}")
        return self.maps[name]


def stored_as(manifest: Manifest, space: str) -> Manifest:
    """Return the manifest with the dim and fingerprint of a document space; "": the artifact's own.

    Raises: ArtifactError: the artifact has no such space.
    """
    if not space:
        return manifest
    chosen = next((other for other in manifest.spaces if other.name == space), None)
    if chosen is None:
        names = ", ".join(other.name for other in manifest.spaces) or "its own only"
        raise ArtifactError(f"model {manifest.name} has no space {space!r}; it has {names} (CROSSLET_SPACE)")
    lines = f"{manifest.fingerprint}\n{manifest.files[chosen.file].sha256}\n"  # the map is part of the identity
    return dataclasses.replace(manifest, dim=chosen.dim, fingerprint=hashlib.sha256(lines.encode()).hexdigest())


def _load(path: Path, shape: tuple[int, int]) -> SpaceMap:
    try:
        affine = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as exc:
        raise ArtifactError(f"{path} cannot be read as an array of numbers") from exc
    if affine.shape != shape or affine.dtype.kind != "f" or not np.isfinite(affine).all():
        raise ArtifactError(f"{path} is not an array of finite numbers of shape {shape}; export the space again")
    return SpaceMap.from_array(affine)
