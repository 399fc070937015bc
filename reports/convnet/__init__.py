"""Pages and tables of convolutional networks only: plans of blocks."""
