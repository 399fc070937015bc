"""Jobs that arrive at a cluster: files of weighted scenarios, times of jobs by size, and choices of sizes."""
