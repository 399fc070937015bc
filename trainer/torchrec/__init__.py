"""The bridge to TorchRec: its modules and sharding plans in dlrmsim's files, and plans as its objects.

Only `trainer.torchrec.sharding_plan` imports the library. Modules and plans that come from it are read by their
attributes, so that a job can be taken over where TorchRec is not installed.
"""
