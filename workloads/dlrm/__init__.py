"""DLRM: embedding tables spread over ranks, dense layers copied to all, and what travels between them."""
