"""A model as its file describes it, its tables and layers, and the settings of a job."""
