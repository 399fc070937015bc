"""Conversion of results to the dataclasses of `reports`, which draws pages from them."""
