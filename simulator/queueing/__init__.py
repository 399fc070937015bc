"""Queues in front of what an engine has timed: requests that wait for batches, jobs that wait for devices.

Arrivals are drawn from a seed. Times come from outside, such as the iteration time of a run; nothing here knows tasks.
`arrivals`: Poisson arrivals; `batching`: servers that answer batches of requests; `latency`: times from arrival to
answer; `arriving_jobs`: jobs that hold devices; `estimates`: statistics of them; `closed_forms`: queues whose waiting
times or blocking are known.
"""
