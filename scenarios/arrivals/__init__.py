"""Jobs that arrive at a cluster: files of scenarios with weights, times of jobs by size, and choices of sizes."""
