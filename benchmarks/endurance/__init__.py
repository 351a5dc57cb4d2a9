"""Overload, shutdown under load, and soak: a real service over loopback, and what it promises about them."""
