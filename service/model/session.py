"""Runs the ONNX graph on token ids.

B texts, L positions, D dims
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnxruntime

from service.errors import ArtifactError, InferenceFailed

IDS_NAME = "input_ids"
INPUT_NAMES = ["attention_mask", IDS_NAME]
OUTPUT_NAME, SCORE_NAME = "sentence_embedding", "score"  # of an encoder, of a re-ranker
CPU_INFO = Path("/proc/cpuinfo")
VNNI = frozenset({"avx512_vnni", "avx_vnni"})  # x86 instructions that accumulate products of bytes in 32 bits
KEPT_PLACES = 256  # texts x length: memory of larger passes is freed, else it would stay allocated for ever


class Session:
    """One single-threaded ONNX Runtime session. `run` is thread-safe."""

    def __init__(self, path: Path, *, dim: int, output: str = OUTPUT_NAME) -> None:
        """Load the graph and check its signature.

        Args:   output: its name, (B, D) float32.
        Raises: ArtifactError: ONNX Runtime refuses the graph, or its inputs or output break the contract.
        """
        try:
            self._session = onnxruntime.InferenceSession(
                str(path), sess_options=session_options(), providers=["CPUExecutionProvider"]
            )
        except Exception as exc:  # ONNX Runtime's errors have no common base class
            reason = (str(exc).splitlines() or [type(exc).__name__])[0]
            raise ArtifactError(f"{path.parent}: {path.name} cannot be loaded ({reason})") from exc
        names = sorted(node.name for node in self._session.get_inputs())
        outputs = {node.name: node.shape for node in self._session.get_outputs()}
        if names != INPUT_NAMES or output not in outputs:
            raise ArtifactError(f"{path.parent}: {path.name} maps {names} to {sorted(outputs)}, not to {output}")
        graph_dim = outputs[output][-1]
        if isinstance(graph_dim, int) and graph_dim != dim:
            raise ArtifactError(f"{path.parent}: {path.name} gives {graph_dim} dims; the manifest says {dim}")
        self._dim, self._output = dim, output
        self._giving_back = onnxruntime.RunOptions()
        self._giving_back.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")

    def run(self, rows: Sequence[Sequence[int]], *, multiple: int = 1) -> npt.NDArray[np.float32]:
        """Embed texts in one pass, padded to the longest.

        Args:    rows: for each text its token ids, specials included.  multiple: L is one of this.
        Returns: (B, D) float32; an encoder's of norm 1.
        Raises:  InferenceFailed: ONNX Runtime raised, or the vectors are not D finite numbers each.
        """
        longest = max(map(len, rows))
        input_ids_BL, attention_mask_BL = _padded(rows, -(-longest // multiple) * multiple)
        try:
            (output_BD,) = self._session.run(
                [self._output],
                {"input_ids": input_ids_BL, "attention_mask": attention_mask_BL},
                self._giving_back if input_ids_BL.size > KEPT_PLACES else None,
            )
        except Exception as exc:
            raise InferenceFailed(f"the model failed on a text of {longest} tokens") from exc
        embedding_BD: npt.NDArray[np.float32] = output_BD
        if embedding_BD.shape != (len(rows), self._dim) or not np.isfinite(embedding_BD).all():
            raise InferenceFailed(f"the model gave no finite vector of {self._dim} dims for {longest} tokens")
        return embedding_BD

    def give_back_unused(self) -> None:
        """Free the memory that ONNX Runtime keeps for later passes."""
        one_token = np.zeros((1, 1), dtype=np.int64)
        inputs = {"input_ids": one_token, "attention_mask": np.ones_like(one_token)}
        self._session.run([self._output], inputs, self._giving_back)


def _padded(rows: Sequence[Sequence[int]], length: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return token ids and mask, both (B, L) int64."""
    input_ids_BL = np.zeros((len(rows), length), dtype=np.int64)
    attention_mask_BL = np.zeros_like(input_ids_BL)
    for position, row in enumerate(rows):
        input_ids_BL[position, : len(row)] = row
        attention_mask_BL[position, : len(row)] = 1
    return input_ids_BL, attention_mask_BL


def session_options() -> onnxruntime.SessionOptions:
    """Return the options of one thread, whose sums are exact."""
    options = onnxruntime.SessionOptions()
    keep_exact(options)
    options.intra_op_num_threads = 1  # the pool runs passes in parallel
    options.inter_op_num_threads = 1
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    options.enable_mem_pattern = False  # it caches a pattern for each input shape, so for each length
    options.log_severity_level = 3  # errors only; warnings concern the graph, not a request
    return options


def keep_exact(options: onnxruntime.SessionOptions) -> None:
    """Prevent overflow when products of bytes are accumulated.

    Without VNNI, x86 adds pairs of uint8 x int8 products in 16 bits, which may overflow. With this option ONNX Runtime
    holds weights as uint8 and accumulates exactly, but more slowly.
    """
    if not has_vnni():
        options.add_session_config_entry("session.x64quantprecision", "1")  # no effect on other processors


def has_vnni(cpu_info: Path = CPU_INFO) -> bool:
    """Return whether this is an x86 processor with VNNI; False if unknown."""
    try:
        lines = cpu_info.read_text().splitlines()
    except OSError:  # not Linux
        return False
    return any(line.startswith("flags") and not VNNI.isdisjoint(line.split()) for line in lines)
