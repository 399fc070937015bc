"""A user's file: steps of many kinds."""

from __future__ import annotations

import contextlib
import copy
import importlib.util
import itertools
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

WIDTH, INNER, BATCH = 256, 1024, 64
MICROBATCHES, STAGES = 4, 4
EXAMPLES = Path(__file__).parents[2] / "trainer" / "examples"


def mlp(*widths):
    layers = [m for i, o in itertools.pairwise(widths) for m in (nn.Linear(i, o), nn.ReLU())]
    return nn.Sequential(*layers).to("cuda")


def batch():
    return torch.randn(BATCH, WIDTH, device="cuda")


def trained(model, x, optimizer=None, loss=lambda y: y.float().sum()):
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.1)

    def step():
        optimizer.zero_grad()
        loss(model(x)).backward()
        optimizer.step()

    return step


def plain(rank, world_size):
    return trained(mlp(WIDTH, INNER, WIDTH), batch())


def plain_on_cpu(rank, world_size):
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = nn.Sequential(nn.Linear(WIDTH, INNER), nn.ReLU(), nn.Linear(INNER, WIDTH), nn.ReLU()).to(device)
    return trained(model, torch.randn(BATCH, WIDTH).to(device))


def compiled(rank, world_size):
    model = torch.compile(mlp(WIDTH, INNER, WIDTH))

    @torch.compile(mode="max-autotune")
    def loss(y):
        return y.float().sum()

    return trained(model, batch(), loss=loss)


class Checkpointed(nn.Module):
    def __init__(self, reentrant):
        super().__init__()
        self.layers = nn.ModuleList([mlp(WIDTH, INNER, WIDTH) for _ in range(3)])
        self.reentrant = reentrant

    def forward(self, x):
        for layer in self.layers:
            x = layer(x) if self.reentrant is None else checkpoint(layer, x, use_reentrant=self.reentrant)
        return x


def no_checkpoint(rank, world_size):
    return trained(Checkpointed(None), batch().requires_grad_())


def checkpoint_reentrant(rank, world_size):
    return trained(Checkpointed(True), batch().requires_grad_())


def checkpoint_hooks(rank, world_size):
    return trained(Checkpointed(False), batch().requires_grad_())


def accumulated(rank, world_size):
    model = DistributedDataParallel(mlp(WIDTH, INNER, WIDTH), device_ids=[rank % 8])
    optimizer = torch.optim.AdamW(model.parameters())
    batches = [batch() for _ in range(4)]

    def step():
        optimizer.zero_grad()
        for number, x in enumerate(batches):
            with model.no_sync() if number < 3 else contextlib.nullcontext():
                (model(x).sum() / 4).backward()
        optimizer.step()

    return step


def scaled(rank, world_size):
    model = DistributedDataParallel(mlp(WIDTH, INNER, WIDTH))
    optimizer, scaler, x = torch.optim.AdamW(model.parameters()), torch.amp.GradScaler("cuda"), batch()

    def step():
        optimizer.zero_grad()
        with torch.autocast(device_type="cuda", dtype=torch.float16):
            loss = F.layer_norm(model(x), (WIDTH,)).sum()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()

    return step


def prefetched(rank, world_size):
    model, side, ready = mlp(WIDTH, INNER, WIDTH), torch.cuda.Stream(), {}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def load():
        with torch.cuda.stream(side):
            host = torch.randn(BATCH, WIDTH).pin_memory()
            ready["x"] = host.to("cuda", non_blocking=True)
            ready["event"] = torch.cuda.Event()
            ready["event"].record(side)

    load()

    def step():
        torch.cuda.current_stream().wait_event(ready["event"])
        x = ready["x"]
        x.record_stream(torch.cuda.current_stream())
        load()
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()

    return step


def blocking_copy(rank, world_size):
    model, host = mlp(WIDTH, INNER, WIDTH), torch.randn(BATCH, WIDTH)
    device = next(model.parameters()).device

    def step():
        loss = model((host * 2).to(device)).sum()
        loss.backward()
        loss.detach().cpu()

    return step


def pipeline(rank, world_size):
    stage, model = rank % STAGES, mlp(WIDTH, INNER, WIDTH)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step():
        optimizer.zero_grad()
        passed = []
        for _ in range(MICROBATCHES):
            x = torch.empty(BATCH, WIDTH, device="cuda")
            if stage > 0:
                dist.recv(x, rank - 1)
                x.requires_grad_()
            y = model(x)
            if stage < STAGES - 1:
                dist.send(y.detach(), rank + 1)
            passed.append((x, y))
        for x, y in passed:
            gradient = torch.ones(BATCH, WIDTH, device="cuda")
            if stage < STAGES - 1:
                dist.recv(gradient, rank + 1)
            y.backward(gradient)
            if stage > 0:
                dist.send(x.grad, rank - 1)
        optimizer.step()

    return step


def pipeline_batched(rank, world_size):
    stage, model = rank % STAGES, mlp(WIDTH, INNER, WIDTH)

    def step():
        sent = None
        for _ in range(MICROBATCHES):
            x, operations = torch.empty(BATCH, WIDTH, device="cuda"), []
            if stage > 0:
                operations.append(dist.P2POp(dist.irecv, x, rank - 1))
            if sent is not None:
                operations.append(dist.P2POp(dist.isend, sent, rank + 1))
            for work in dist.batch_isend_irecv(operations) if operations else ():
                work.wait()
            y = model(x)
            sent = y.detach() if stage < STAGES - 1 else None
        if sent is not None:
            dist.isend(sent, rank + 1).wait()
        y.sum().backward()

    return step


class Attentive(nn.Module):
    def __init__(self, dropout, mask=False):
        super().__init__()
        self.attention = nn.MultiheadAttention(WIDTH, 8, dropout=dropout, batch_first=True)
        self.mask = mask

    def forward(self, x):
        mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1) if self.mask else None
        return self.attention(x, x, x, need_weights=False, attn_mask=mask)[0]


def attention_dropout(rank, world_size):
    return trained(Attentive(0.1).to("cuda"), torch.randn(4, 128, WIDTH, device="cuda"))


def attention_masked(rank, world_size):
    return trained(Attentive(0.0, mask=True).to("cuda"), torch.randn(4, 128, WIDTH, device="cuda"))


def encoder_layer(rank, world_size):
    layer = nn.TransformerEncoderLayer(WIDTH, 8, INNER, dropout=0.1, batch_first=True)
    return trained(layer.to(torch.bfloat16).to(rank), torch.randn(4, 128, WIDTH, device=rank, dtype=torch.bfloat16))


def lstm(rank, world_size):
    model = nn.LSTM(WIDTH, 128, num_layers=2, batch_first=True).to("cuda")
    return trained(model, torch.randn(16, 20, WIDTH, device="cuda"), loss=lambda y: y[0].sum())


def gru(rank, world_size):
    model = nn.GRU(WIDTH, 128, bidirectional=True).to("cuda")
    return trained(model, torch.randn(20, 16, WIDTH, device="cuda"), loss=lambda y: y[0].sum())


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = (nn.Conv2d(16, 16, 3, padding=1, bias=False) for _ in range(2))
        self.norm = nn.BatchNorm2d(16)

    def forward(self, x):
        return F.relu(x + self.second(F.relu(self.norm(self.first(x)))), inplace=True)


def convolutional():
    return nn.Sequential(
        nn.Conv2d(3, 16, 7, 2, 3), Residual(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10)
    )


def convnet(rank, world_size):
    return trained(DistributedDataParallel(convolutional().to("cuda")), torch.randn(8, 3, 64, 64, device="cuda"))


def average(rank, world_size):
    model = mlp(WIDTH, INNER, WIDTH)
    mean, optimizer, x = copy.deepcopy(model), torch.optim.AdamW(model.parameters()), batch()
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 100)

    def step():
        optimizer.zero_grad()
        model(x).sum().backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        with torch.no_grad():
            torch._foreach_lerp_([*mean.parameters()], [*model.parameters()], 0.001)

    return step


def layers(count=3):
    made = [nn.TransformerEncoderLayer(WIDTH, 8, INNER, batch_first=True, dropout=0.0) for _ in range(count)]
    return nn.Sequential(*made).to("cuda")


def hybrid_shards(rank, world_size):
    mesh = init_device_mesh("cuda", (2, world_size // 2), mesh_dim_names=("replicas", "shards"))
    model = layers()
    for layer in (*model, model):
        fully_shard(layer, mesh=mesh)
    return trained(model, torch.randn(4, 128, WIDTH, device="cuda"), torch.optim.AdamW(model.parameters()))


def two_decoder_layers(rank, world_size):
    spec = importlib.util.spec_from_file_location("decoder", EXAMPLES / "decoder_7b_fsdp2.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.training_step(rank, world_size, layers=2)


def bf16_gradients(rank, world_size):
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook

    model = DistributedDataParallel(mlp(WIDTH, INNER, WIDTH))
    model.register_comm_hook(None, bf16_compress_hook)
    return trained(model, batch())


class HalfUsed(nn.Module):
    def __init__(self):
        super().__init__()
        self.used, self.unused = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        return self.used(x)


def unused_found(rank, world_size):
    return trained(DistributedDataParallel(HalfUsed().to("cuda"), find_unused_parameters=True), batch())


def unused_not_found(rank, world_size):
    return trained(DistributedDataParallel(HalfUsed().to("cuda")), batch())


def three_imports(rank, world_size):
    import torch.nn.parallel.distributed as third

    model = third.DistributedDataParallel(torch.nn.parallel.DistributedDataParallel(mlp(WIDTH, WIDTH)))
    return trained(DistributedDataParallel(model), batch())


def async_tensor(rank, world_size):
    import torch.distributed._functional_collectives as functional

    model, x = mlp(WIDTH, WIDTH), batch()

    def step():
        gathered = functional.all_gather_tensor_autograd(model(x), 0, dist.group.WORLD)
        gathered.sum().backward()
        total = functional.all_reduce(model[0].weight.grad, "sum", dist.group.WORLD)
        torch.relu(x)
        torch.relu(total)

    return step


class OnDevice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2 + torch.zeros(gradient.shape, device=gradient.device) + torch.ones(1, device="cuda")


def backward_on_device(rank, world_size):
    torch.cuda.set_device(rank % 8)
    model = nn.Linear(WIDTH, WIDTH, device=torch.device(f"cuda:{rank % 8}"))
    x = torch.randn(BATCH, WIDTH).to(rank % 8)
    if not (x.is_cuda and x.device.type == "cuda" and dist.get_backend() == "nccl"):
        raise ValueError("tensors are not on a GPU")

    def step():
        OnDevice.apply(model(x)).sum().backward()
        torch.cuda.synchronize()

    return step


def _optimized(make):
    def function(rank, world_size):
        model = mlp(WIDTH, INNER, WIDTH)
        return trained(model, batch(), make(model.parameters()))

    return function


OPTIMIZERS = {
    "SGD": {"momentum": 0.9},
    "Adagrad": {},
    "Adam": {},
    "AdamW": {"amsgrad": True},
    "RMSprop": {"momentum": 0.9},
    "NAdam": {},
    "RAdam": {},
    "Adadelta": {},
    "Adamax": {},
}
for _name, _options in OPTIMIZERS.items():
    for _form in ("foreach", "loop", "fused") if _name in ("SGD", "Adam", "AdamW") else ("foreach", "loop"):
        _chosen = {"foreach": {}, "loop": {"foreach": False}, "fused": {"fused": True}}[_form]

        def _make(parameters, name=_name, options=_options | _chosen):
            return getattr(torch.optim, name)(parameters, lr=0.1, **options)

        globals()[f"{_name}_{_form}"] = _optimized(_make)


def _sparse(make):
    def function(rank, world_size):
        table = nn.EmbeddingBag(10_000, 32, mode="sum", sparse=True, device="cuda")
        rows = torch.randint(0, 10_000, (BATCH, 5), device="cuda")
        return trained(table, rows, make(table.parameters()))

    return function


sparse_SGD = _sparse(lambda parameters: torch.optim.SGD(parameters, lr=0.1))  # noqa: N816
sparse_Adagrad = _sparse(lambda parameters: torch.optim.Adagrad(parameters, lr=0.1))  # noqa: N816
sparse_Adam = _sparse(lambda parameters: torch.optim.SparseAdam(list(parameters), lr=0.1))  # noqa: N816


def memory_mlp(rank, world_size):
    model = mlp(WIDTH, INNER, WIDTH)
    return trained(model, batch(), torch.optim.AdamW(model.parameters()))


class TransformerLayer(nn.Module):
    """A layer that names its kernel of attention, so that it is the same on CPUs and GPUs."""

    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, INNER), nn.Linear(INNER, WIDTH)
        self.norms = nn.ModuleList([nn.LayerNorm(WIDTH) for _ in range(2)])

    def forward(self, x):
        parts = self.qkv(self.norms[0](x)).chunk(3, dim=-1)
        query, key, value = (part.unflatten(-1, (8, -1)).transpose(1, 2) for part in parts)
        mixed = torch.ops.aten._scaled_dot_product_flash_attention(query, key, value, 0.0, True)[0]
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.norms[1](x))))


def memory_layer(rank, world_size):
    layer = TransformerLayer().to("cuda")
    return trained(layer, torch.randn(4, 128, WIDTH, device="cuda"), torch.optim.AdamW(layer.parameters()))
