"""The reference trainer (PyTorch): measures the real thing. It does not exist yet; the room is kept for it."""
