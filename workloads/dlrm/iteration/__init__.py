"""The task graph of one training iteration, and the memory it needs."""
