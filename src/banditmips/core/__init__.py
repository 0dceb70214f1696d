"""Compiled part of the search."""
