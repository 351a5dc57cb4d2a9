"""Speed and memory, measured side by side with others."""

from service.process.telemetry_off import switch_telemetry_off

switch_telemetry_off()  # before any module of this package loads a library
