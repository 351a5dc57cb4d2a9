"""Turns a checkpoint into a served artifact: ONNX graph, quantised weights, manifest, parity pack, model card."""

from service.process.files import require_temporary_folder
from service.process.telemetry_off import switch_telemetry_off

switch_telemetry_off()  # before any module of this package imports a library
require_temporary_folder()  # likewise
