"""Texts of small files, which every command reads in milliseconds."""

from __future__ import annotations

from typing import Any

JOB = """\
schema: 1
name: small
cluster: dgx_a100_80
world_size: 2
workload:
  model: model.yaml
  global_batch_size: 512
  sharding: {planner: greedy}
run: {iterations: 4}
"""
ARRIVING_JOBS = """\
schema: 1
title: two kinds
cluster: dgx_a100_80
nodes: 2
arrivals_per_hour: 30
seed: 1
simulated_jobs: 1000
queue: {longest_wait: 1 h}
jobs:
  - scenario: job.yaml
    set: {workload.global_batch_size: 1024}
    weight: 2
    iterations: 100_000
    length: exponential
    nodes: [1]
    deadline: {low: 0.5, high: 2}
  - {scenario: job.yaml, amount: 1e9, nodes: [1, 2]}
"""
BLOCKS = """\
network: alexnet
blocks:
  - {last: relu_0, decision: recompute}
  - {last: bias_7, decision: keep}
"""
EVERY_KEY = """\
schema: 1
name: every_key
cluster: dgx_a100_80
nodes: null
world_size: 2
placement: block
workload:
  model: model.yaml
  global_batch_size: 512
  alternatives: {}
  sharding: {planner: greedy}
  framework: neo
  optimizer: {dense: sgd, tables: rowwise_adagrad}
  indices: {distribution: zipf, exponent: 1.05}
  pooling_spread: {distribution: lognormal, deviation: 0.5}
  rows_scaling: none
  pipeline: sparse_dist
  gradient_accumulation: 2
  overlap: {all_reduce: false}
  gradient_buckets: {first_bytes: 1 MiB, bytes: 25 MiB}
  cuda_graph: none
  hybrid_embedding: null
  ingestion: {reader_hosts: 4, cores_per_host: 32, decode_bytes_per_s: 50 MB/s}
  strategy: hybrid
precision: {dense: tf32, tables: fp16, forward_all_to_all: fp16, backward_all_to_all: bf16, all_reduce: fp32}
network: {algorithms: {all_reduce: ring}}
variation:
  seed: 0
  compute_jitter: 0.1
  host_jitter: 0.1
  input_jitter: 0.1
  straggler_ranks: [1]
  straggler_slowdown: 1.5
run: {iterations: 4, max_iterations: 20}
cost: {gpu_hour_usd: 2.5}
output: {record: {ranks: [0], iterations: 2}}
"""
MODEL = """\
name: small
title: "Small"
tables: [{name: a, rows: 1e4, dim: 64, pooling_factor: 1, count: 2}, {rows: 1e3, dim: 64, pooling_factor: 3.5}]
mlp: {dense_features: 13, bottom: [64], top: [64, 1]}
interaction: dcnv2
cross: {layers: 3, rank: 16}
index_reuse: {distribution: zipf, exponent: 1.05}
pooling_spread: {distribution: geometric}
local_batch_size: 256
"""
TABLES = """\
name,rows,dim,features,pooling,dtype
users,10e3,64,1,1,
items,5e3,64,clicked|bought,20,
categories,100,64,1,3.5,
countries,200,64,1,1,fp32
"""
REUSE = """\
name: small
title: "Two bins"
source: invented
samples: 512
lookups: 3000
distinct_rows: 900
bins:
  - {above: 0, row_share: 0.6, lookup_share: 0.2}
  - {above: 1, row_share: 0.4, lookup_share: 0.8}
"""
CLUSTER = """\
name: lab
description: Two nodes.
node: node.yaml
max_nodes: {value: 2, source: rack plan, grade: read}
fabric:
  kind: fat_tree
  network: infiniband
  spine_oversubscription: {value: 1.0, source: cable plan, grade: read}
  hop_latency_s: {value: 0.2 us, source: data sheet, grade: read}
collectives: nccl_2_30
calibration: []
"""
SUITE = """\
schema: 1
title: "Two jobs"
description: Invented.
calibration: ["nodes == 1"]
cases:
  - id: one
    scenario: job.yaml
    set: {workload.global_batch_size: 1024}
    metric: throughput_samples_per_s
    measured: 1.14e+06
    unit: samples/s
    source: "invented"
    grade: read
  - id: two
    scenario: job.yaml
    metric: throughput_samples_per_s
    measured: {low: 1.0e+05, high: 2.0e+07}
    unit: samples/s
    source: "invented"
    grade: read
excluded:
  - {id: three, reason: "invented, as all of this"}
"""
NCCL_LOG = """\
# Collective test starting: all_reduce_perf
# nThread 1 nGpus 1 minBytes 33554432 maxBytes 134217728 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1
#
# Using devices
#  Rank  0 Group  0 Pid 101 on node0 device  0 [0000:1b:00] NVIDIA H200
#  Rank  1 Group  0 Pid 102 on node0 device  1 [0000:43:00] NVIDIA H200
#  Rank  2 Group  0 Pid 103 on node0 device  2 [0000:52:00] NVIDIA H200
#  Rank  3 Group  0 Pid 104 on node0 device  3 [0000:61:00] NVIDIA H200
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)
    33554432       4194304    double     sum      -1   171.88  195.22  292.83       0   173.28  193.64  290.46       0
    67108864       8388608    double     sum      -1   325.00  206.49  309.74       0   322.83  207.88  311.82       0
   134217728      16777216    double     sum      -1   614.21  218.52  327.78       0   613.64  218.72  328.08       0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 308.554
"""
COMMAND_LINES = """\
run job.yaml --set run.iterations=3 --ranks 0,1 --no-report --no-levers --out out
run job.yaml --check --json --set precision.dense=fp16
plan job.yaml --planner greedy --json --out out
solve job.yaml --key workload.global_batch_size --between 256,1024 --throughput 5e5 --json
sweep job.yaml --over world_size=1,2 --scaling weak --workers 1 --json --out out
collective dgx_a100_80 --op all_to_all --ranks 4,8 --bytes 1KiB..1MiB --ranks-per-node 4 --placement random --json
collective zionex --op all_reduce --ranks 16 --bytes 1MiB,4MiB --algorithm ring --plot page.html
validate fdr_allreduce --workers 1 --fail-above 50 --json --report page.html
import rank0.json --ranks 0 --whole --json --out out --no-report
replay rank0.json --gpu h100_sxm5_80 --from-gpu a100_sxm4_80 --host-speed 1.5 --delay 0=2ms --json --out out
replay rank0.json --cluster dgx_a100_80 --absent clones --overlap none --collective-precision fp16 --json
export rank0.json --format chrome --ranks 0 --out out
compare rank0.json rank0.json --rows 5
list clusters --json
show clusters/zionex
schema scenario
init new.yaml
""".splitlines()
"""A command line of every subcommand that starts no process and needs no network."""


HOST = (1, 100)
"""Process and thread of the host's events."""


def kineto_trace(rank: int) -> dict[str, Any]:
    """Events of one of two ranks: a GEMM, an all_reduce, a copy, a wait of the host, an update; times in us."""
    events: list[dict[str, Any]] = []

    def add(cat: str, name: str, at: float, length: float, lane: tuple[int, int], **args: Any) -> None:
        own = {"ph": "X", "cat": cat, "name": name, "pid": lane[0], "tid": lane[1], "ts": at, "dur": length}
        events.append({**own, "args": args})

    def launched(number: int, name: str, call: float, at: float, length: float, stream: int = 7, **args: Any) -> None:
        add("cuda_runtime", "cudaLaunchKernel", call, 4.0, HOST, correlation=number)
        kind = "gpu_memcpy" if name.startswith("Memcpy") else "kernel"
        add(kind, name, at, length, (0, stream), correlation=number, stream=stream, device=0, **args)

    late = 30.0 * rank
    reduced = {"Collective name": "allreduce", "In msg nelems": 1000, "dtype": "Float", "Group size": 2}
    add("user_annotation", "ProfilerStep#1", 0.0, 200.0, HOST)
    add("cpu_op", "aten::mm", 2.0, 10.0, HOST, **{"Input Dims": [[64, 32], [32, 16]], "Input type": ["float", "float"]})
    launched(1, "ampere_sgemm_64x64", 5.0, 12.0, 10.0 + late)
    launched(2, "ncclDevKernel_AllReduce_Sum_f32", 22.0, 30.0 + late, 35.0 - late, 20, **reduced)
    launched(3, "Memcpy DtoH (Device -> Pinned)", 40.0, 70.0, 10.0, bytes=4096)
    add("cuda_runtime", "cudaDeviceSynchronize", 50.0, 32.0, HOST, correlation=4)
    launched(5, "adam", 100.0, 110.0, 20.0)
    head = {"distributedInfo": {"rank": rank, "world_size": 2}, "deviceProperties": [{"id": 0, "name": "NVIDIA A100"}]}
    return {**head, "traceEvents": events}


def execution_trace() -> dict[str, Any]:
    """A PyTorch execution trace: a GEMM, an all_to_all, an element-wise operator."""

    def tensor(number: int, elements: int) -> list[Any]:
        return [number, number, 0, elements, 4, "cuda:0"]

    exchanged = [tensor(12, 15), 7, 0, 0, "all_to_allv", [5, 10], [5, 10]]
    nodes = [
        {"id": 1, "name": "root", "parent": 0, "inputs": [], "outputs": []},
        {
            "id": 2, "name": "aten::mm", "parent": 1, "rf_id": 1, "tid": 1, "inputs": [tensor(10, 12), tensor(11, 20)],
            "input_shapes": [[3, 4], [4, 5]], "outputs": [tensor(12, 15)],
        },
        {
            "id": 3, "name": "record_param_comms", "parent": 1, "rf_id": 2, "tid": 1, "inputs": exchanged,
            "input_types": ["Tensor(c10::Half)", "Int"], "outputs": [tensor(13, 15)],
        },
        {"id": 4, "name": "aten::relu", "parent": 1, "inputs": [tensor(13, 15)], "outputs": [tensor(14, 15)]},
    ]  # fmt: skip
    return {"schema": "1.0.1", "nodes": nodes}


def chakra_trace() -> bytes:
    """A Chakra execution trace: compute, an all_reduce behind it, compute beside it, an end behind both."""
    from traces.chakra.messages import messages

    def node(number: int, name: str, kind: int, after: tuple[int, ...], micros: int = 0) -> Any:
        return messages()["Node"](id=number, name=name, type=kind, data_deps=after, duration_micros=micros)

    reduce = node(2, "reduce", 7, (1,))
    reduce.attr.add(name="comm_type", int64_val=0)
    reduce.attr.add(name="comm_size", int64_val=1 << 20)
    made = [node(1, "forward", 4, (), 100), reduce, node(3, "backward", 4, (1,), 50), node(4, "update", 4, (2, 3), 10)]
    head = messages()["GlobalMetadata"](version="0.0.4")
    payloads = [message.SerializeToString() for message in (head, *made)]
    return b"".join(bytes([len(payload)]) + payload for payload in payloads)
