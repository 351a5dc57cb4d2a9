"""Aligns a language pair of a frozen encoder with a small head after its vectors (Huang et al. 2023)."""
