"""Endurance tests of a real service over loopback: overload, shutdown under load, soak, crashes, a full disk."""
