"""Distils a small cross-lingual student from a large encoder (Ding et al. 2022)."""

from service.process.files import require_temporary_folder
from service.process.telemetry_off import switch_telemetry_off

switch_telemetry_off()  # before any module of this package loads a library
require_temporary_folder()  # likewise
