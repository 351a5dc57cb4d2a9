"""What a collection's own questions say of the confidence of its searches."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import ConfigDict, Field, TypeAdapter

MIN_SCALE, MAX_SCALE, MAX_SHIFT = 0.05, 10.0, 10.0


@dataclass(frozen=True)
class Recalibration:
    """Changes the model's confidence for one collection; `crosslet index report --queries FILE --keep` fits it.

    expected_answerable: share of the questions that the documents answer; None: as CROSSLET_EXPECTED_ANSWERABLE says.
    scale, shift: multiplied with the log odds of the model, then added.
    fingerprint: of the model that these two were fitted for; with another they are ignored.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    expected_answerable: Annotated[float, Field(strict=True, gt=0, lt=1)] | None = None
    scale: Annotated[float, Field(strict=True, ge=MIN_SCALE, le=MAX_SCALE)] = 1.0
    shift: Annotated[float, Field(strict=True, ge=-MAX_SHIFT, le=MAX_SHIFT)] = 0.0
    fingerprint: str = ""

    def options(self, fingerprint: str) -> dict[str, float]:
        """Return what `ConfidenceModel.probability` takes for a model."""
        shares = {} if self.expected_answerable is None else {"answerable": self.expected_answerable}
        return shares | ({"scale": self.scale, "shift": self.shift} if self.fingerprint == fingerprint else {})


RECALIBRATION = TypeAdapter(Recalibration | None)
