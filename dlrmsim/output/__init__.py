"""Files that dlrmsim writes: folders that appear whole or not at all, results, and the record of each folder."""
