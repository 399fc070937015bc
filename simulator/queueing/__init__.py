"""Queues of work with known times: requests that wait for batches, jobs that wait for devices.

Arrivals are drawn from a seed. Callers give the times, such as the iteration time of a run; this package has no tasks.
`arrivals`: Poisson arrivals; `batching`: servers that answer batches of requests; `latency`: times from arrival to
answer; `arriving_jobs`: jobs that hold devices; `estimates`: statistics of these jobs; `closed_forms`: queues with
known waiting times or blocking rates.
"""
