"""Capture of a user's training step: operators and collectives of every rank, recorded on tensors without memory."""
