"""Chakra execution traces: length-delimited protobuf, one file per rank."""
