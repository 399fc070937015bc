"""DLRMs trained asynchronously on CPU servers: trainers, and servers of tables, of dense parameters and of batches.

A trainer's threads train batches of their own on one copy of the dense parameters (Hogwild). A thread takes a batch
from the readers, sends its indices to all servers of tables, gets pooled vectors back, computes, sends the gradients of
the vectors, and begins the next batch; the servers update rows meanwhile. Beside that a thread of the trainer exchanges
the dense parameters with their servers (EASGD), a part of them in every iteration. Nothing waits for another trainer.

`settings`: the job; `placement`: tables on servers; `thread_work`: kernels of a batch on a thread; `requests`: kernels
of a server for a request; `job`: what programs have in common; `trainer`, `servers`: programs; `memory`; `family`: all
of it as a workload.
"""
