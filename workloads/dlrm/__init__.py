"""DLRM: embedding tables spread over ranks, dense layers copied to all, and the traffic between them."""
