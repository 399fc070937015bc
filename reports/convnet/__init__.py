"""Pages and tables that only convolutional networks have: plans of their blocks."""
