"""Error texts of DataParallel, DistributedDataParallel, samplers and checkpoints of wrapped models. Pure."""

from __future__ import annotations

from gputop.doctor.logs.patterns.pattern import Pattern, cascade, failure, hint

_REFUSED = r"(?:Connection refused|Connection timed out|No route to host|Network is unreachable)"
_MESH = (
    ("connectFullMesh failed", r"connectFullMesh failed with (?:\[[^\]\n]{1,200}\] )?(?P<why>\S[^\n]{0,200})"),
    ("gloo/transport", rf"pair\.cc:\d{{1,5}}\] (?P<why>connect \[[^\]\n]{{1,60}}\]:\d{{1,5}}[:,] (?:SO_ERROR: )?{_REFUSED})"),
)
"""How gloo says that a rank cannot be reached: gloo/transport/tcp (torch 1.8 to 2.13), and ProcessGroupGloo (from 2.6 on)."""

PATTERNS: tuple[Pattern, ...] = (
    failure(
        "dp_replica_error",
        "B10",
        " in replica ",
        r"Caught (?P<type>[\w.]+) in replica (?P<replica>\d+) on device (?P<device>\d+)",
        "Replica {replica} of DataParallel failed on GPU {device} with {type}",
        "The copy of the model on GPU {device} failed; the inner error says why. Replicas have no parameters of their own, "
        "and tensors that are not registered buffers stay on GPU 0.",
        'self.register_buffer("mask", mask)  # not self.mask = mask.cuda(); in forward use x.device\n'
        "torchrun --standalone --nproc-per-node=gpu train.py  # DistributedDataParallel replicates nothing",
    ),
    failure(
        "dp_not_on_dev0",
        "B09",
        "must have its parameters and buffers on device",
        r"module must have its parameters and buffers on device (?P<first>\S+) \(device_ids\[0\]\) "
        r"but found one of them on device: (?P<found>\S+)",
        "DataParallel needs the model on {first}, but part of it is on {found}",
        "DataParallel copies the model from its first device, but does not move it there.",
        'model = model.to("{first}")  # before nn.DataParallel(model)',
    ),
    failure(
        "dp_kwargs_mismatch",
        "B05",
        "number of modules",
        r"The number of modules (?P<modules>\d+) is not equal to the number of (?P<what>kwargs_tup|inputs) (?P<count>\d+)",
        "DataParallel split one argument into {modules} and another into {count}",
        "Every tensor argument is split along its first dimension; one of them has fewer rows than the batch ({count} "
        "pieces instead of {modules}).",
        "mask = mask.expand(x.size(0), *mask.shape[1:])  # as many rows as the batch, or create it inside forward",
    ),
    failure(
        "dp_scatter_scalar",
        "B05",
        "chunk expects at least",
        r"chunk expects at least a 1-dimensional tensor",
        "DataParallel cannot split a tensor without dimensions",
        "A 0-dimensional tensor was passed to the wrapped model; DataParallel splits every tensor along its first dimension.",
        "model(x, float(scale))  # a plain number is copied to each replica; or scale.expand(x.size(0))",
    ),
    hint(
        "dp_gather_scalar",
        "A09",
        "input tensors were scalars",
        r"Was asked to gather along dimension 0, but all input tensors were scalars",
        "nn.DataParallel runs all GPUs from one process",
        "The model returns a scalar loss for each GPU, and DataParallel stacks them. Often a framework (Hugging Face's "
        "Trainer) wraps the model because it sees several GPUs.",
        "torchrun --standalone --nproc-per-node=gpu train.py  # the Trainer then uses DistributedDataParallel\n"
        "CUDA_VISIBLE_DEVICES=0 python train.py  # or one GPU on purpose",
    ),
    hint(
        "hf_n_gpu",
        "A09",
        "Training with DataParallel",
        r"Training with DataParallel so batch size has been adjusted to: (?P<batch>[\d,]+)",
        "Hugging Face's Trainer wrapped the model in nn.DataParallel (batch {batch})",
        "When it is started with plain python, the Trainer uses all visible GPUs through DataParallel: one process, one "
        "interpreter lock.",
        "torchrun --standalone --nproc-per-node=gpu train.py\nCUDA_VISIBLE_DEVICES=0 python train.py  # or one GPU on purpose",
    ),
    hint(
        "dp_imbalance",
        "B11",
        "imbalance between your GPUs",
        r"There is an imbalance between your GPUs\. You may want to exclude GPU (?P<gpu>\d+)",
        "GPU {gpu} has less than 75% of the memory or cores of the others",
        "DataParallel gives every GPU the same share, so the smallest card limits the speed and the batch size.",
        "nn.DataParallel(model, device_ids=[...])  # without {gpu}; or leave it out of CUDA_VISIBLE_DEVICES",
    ),
    failure(
        "ddp_devids_cpu",
        "C15",
        "device_ids and output_device arguments only work",
        r"DistributedDataParallel device_ids and output_device arguments only work with .{0,200}?"
        r"but got device_ids \[(?P<ids>[^\]]{0,200})\], .{0,200}?module parameters \{(?P<devices>[^}]{0,200}cpu[^}]{0,200})\}",
        "DistributedDataParallel got device_ids [{ids}], but the model is on {devices}",
        "The model was wrapped before it was moved to its GPU (or only part of it was moved).",
        'local_rank = int(os.environ["LOCAL_RANK"])\nmodel = model.to(local_rank)\nmodel = DDP(model, device_ids=[local_rank])',
    ),
    failure(
        "ddp_devids_spread",
        None,
        "device_ids and output_device arguments only work",
        r"DistributedDataParallel device_ids and output_device arguments only work with .{0,200}?"
        r"but got device_ids \[(?P<ids>[^\]]{0,200})\], .{0,200}?module parameters \{(?P<devices>(?:(?!cpu)[^}]){0,400})\}",
        "DistributedDataParallel got device_ids [{ids}], but the model is spread over {devices}",
        "With device_ids, the whole model must be on that one GPU. Wrap a model whose layers are on several GPUs without "
        "device_ids.",
        "model = DDP(model)  # layers on several GPUs: no device_ids, no output_device\n"
        "# intended for one GPU: model.to(local_rank) before wrapping, and no device in forward or __init__",
    ),
    failure(
        "ddp_not_needed",
        "C15",
        "is not needed when a module",
        r"DistributedDataParallel is not needed when a module doesn't have any parameter that requires a gradient",
        "Nothing in the wrapped model is trainable",
        "Every parameter has requires_grad=False when the model is wrapped: the model is frozen, or unfrozen only later.",
        "# unfreeze first, then wrap; a model only for inference needs no DDP",
    ),
    failure(
        "unused_params",
        "C09",
        "Expected to have finished reduction",
        r"Expected to have finished reduction in the prior iteration before starting a new one",
        "Parts of the model did not contribute to the loss",
        "DistributedDataParallel waits for a gradient of every parameter; some got none in this step.",
        "print([n for n, p in model.named_parameters() if p.grad is None])  # or TORCH_DISTRIBUTED_DEBUG=DETAIL\n"
        "DDP(model, device_ids=[local_rank], find_unused_parameters=True)  # if a branch is left out on purpose",
    ),
    failure(
        "unused_params",
        "C09",
        "that were not used in producing",
        # Lightning, since 1.6, instead of torch's own text.
        r"your LightningModule has parameters that were not used in producing the loss returned by",
        "Parts of the model did not contribute to the loss",
        "Lightning wraps the model in DistributedDataParallel, which waits for a gradient of every parameter; some got none.",
        "print([n for n, p in model.named_parameters() if p.grad is None])  # or TORCH_DISTRIBUTED_DEBUG=DETAIL\n"
        "Trainer(strategy='ddp_find_unused_parameters_true')  # if a branch is left out on purpose",
    ),
    failure(
        "unused_idx",
        "C09",
        "did not receive grad for rank",
        r"Parameter(?:s which| indices which) did not receive grad for rank (?P<rank>\d+): (?P<parameters>.+)",
        "Parameters {parameters} got no gradient on rank {rank}",
        "DistributedDataParallel waits for a gradient of every parameter; these got none in this step.",
        "names = [n for n, _ in model.named_parameters()]  # {parameters}\n"
        "DDP(model, device_ids=[local_rank], find_unused_parameters=True)  # if a branch is left out on purpose",
    ),
    failure(
        "ready_twice",
        "C09",
        "ready only once",
        r"Expected to mark a variable ready only once",
        "A parameter got its gradient twice in one step",
        "Several reentrant checkpoints use the same parameter, or modules that share it were called more than once.",
        "checkpoint(f, x, use_reentrant=False)\nDDP(model, static_graph=True)  # if the graph is the same in every step",
    ),
    hint(
        "fup_useless",
        "C09",
        "find_unused_parameters=True was specified",
        r"find_unused_parameters=True was specified in DDP constructor, but did not find any unused parameters",
        "find_unused_parameters=True costs time and finds nothing",
        "In every step, DDP searches the graph for parameters without a gradient; there are none.",
        "DDP(model, device_ids=[local_rank])  # without find_unused_parameters",
        severity="info",
    ),
    failure(
        "module_prefix",
        "C13",
        'key(s) in state_dict: "module.',
        r'(?P<which>Missing|Unexpected) key\(s\) in state_dict: "module\.(?P<name>[^"]*)"',
        'The checkpoint and the model differ by the prefix "module."',
        'One of them is wrapped in DataParallel or DDP and the other is not ("module.{name}").',
        'state = {{k.removeprefix("module."): v for k, v in state.items()}}\n'
        "(model.module if hasattr(model, 'module') else model).load_state_dict(state)\n"
        "torch.save(model.module.state_dict(), path)  # when saving, so that it does not happen again",
    ),
    failure(
        "state_dict_names",
        None,
        'key(s) in state_dict: "',
        r'(?P<which>Missing|Unexpected) key\(s\) in state_dict: "(?P<name>[^"]*)"',
        "The checkpoint's names differ from the model's ({which}: {name})",
        "The checkpoint was saved from another model, or from a wrapped one: torch.compile puts _orig_mod. before each name.",
        "print(state.keys() ^ model.state_dict().keys())  # what only one of them contains\n"
        "model.load_state_dict(state, strict=False)  # if a part is new on purpose, such as another head",
    ),
    failure(
        "sampler_excl",
        "C05",
        "mutually exclusive with",
        r"(?P<what>batch_sampler|sampler) option is mutually exclusive with (?P<other>shuffle|batch_size)?",
        "A DataLoader takes a sampler or shuffle=True, not both",
        "The sampler shuffles already.",
        "sampler = DistributedSampler(dataset, shuffle=True)\nDataLoader(dataset, sampler=sampler, shuffle=False)\n"
        "sampler.set_epoch(epoch)  # in each epoch",
    ),
    failure(
        "coll_mismatch",
        "C08",
        "mismatch between collectives on ranks",
        r"Detected mismatch between collectives on ranks\. Rank (?P<rank>\d+) is running collective: "
        r"CollectiveFingerPrint\((?:SequenceNumber=(?P<sequence>\d+), )?OpType=(?P<op>\w+).{0,400}?"
        r"but Rank (?P<other>\d+) is running collective: "
        r"CollectiveFingerPrint\((?:SequenceNumber=(?P<other_sequence>\d+), )?OpType=(?P<other_op>\w+)",
        "Rank {rank} called {op} while rank {other} called {other_op}",
        "The ranks ran different code: a collective operation is in a branch that not all of them take, or shapes differ.",
        "# call it on every rank; what only rank 0 does (evaluate, save) uses model.module and no collective\n"
        "TORCH_DISTRIBUTED_DEBUG=DETAIL torchrun ...  # shows the stack of each rank",
    ),
    failure(
        "coll_mismatch",
        "C08",
        "distributed collective mismatch",
        r"(?P<got>\b\d+) vs (?P<expected>\d+)\. Received data size doesn't match expected size\. "
        r"Is there a distributed collective mismatch",
        "Ranks called one collective with {got} and {expected} bytes",
        "The ranks ran different code or had tensors of different shapes in the same collective operation.",
        "TORCH_DISTRIBUTED_DEBUG=DETAIL torchrun ...  # names the operation and the shape on each rank",
    ),
    failure(
        "coll_mismatch",
        "C08",
        "message truncated",
        # net_socket.cc of NCCL since 2.4 ("collective sizes" since 2.18).
        r"NET/Socket : (?:peer \S+ )?message truncated : receiving (?P<got>\d+) bytes instead of (?P<expected>\d+)",
        "Ranks called one collective with different sizes: {got} bytes arrived instead of {expected}",
        "The ranks called a collective operation on tensors of different sizes, or different operations. all_gather needs the "
        "same shape on every rank.",
        "dist.all_gather(sizes, size)  # the sizes first; then pad every tensor to the largest, and cut after the gathering\n"
        "TORCH_DISTRIBUTED_DEBUG=DETAIL torchrun ...  # names the operation and the shape on each rank",
    ),
    failure(
        "param_shape",
        "C08",
        "appears not to match sizes of the same param",
        r"\[(?P<rank>\d+)\]: params\[(?P<index>\d+)\] in this process with (?:sizes )?\[(?P<sizes>[^\]]*)\] "
        r"appears not to match sizes of the same param in process (?P<other>\d+)",
        "Parameter {index} has the shape [{sizes}] on rank {rank} and another on rank {other}",
        "The ranks built different models: sizes that depend on the rank, on its data, or on its arguments.",
        "# build the model from the same configuration on every rank; compare: print(rank, [p.shape for p in "
        "model.parameters()])",
    ),
    failure(
        "param_shape",
        "C08",
        "DDP expects same model across all ranks",
        r"DDP expects same model across all ranks, but Rank (?P<rank>\d+) has (?P<count>\d+) params, "
        r"while rank (?P<other>\d+) has inconsistent (?P<other_count>\d+) params",
        "Rank {rank} has {count} parameters, rank {other} has {other_count}",
        "The ranks built different models.",
        "# build the model from the same configuration on every rank; compare: print(rank, len(list(model.parameters())))",
    ),
    *(
        failure(
            "gloo_mesh",
            None,
            key,
            expression,
            "gloo's ranks cannot connect to each other: {why}",
            "Each rank listens at the address of one interface, which the others must reach. gloo takes the one that the "
            "host's name stands for, often one of a container, a VPN or the loopback.",
            "getent hosts $(hostname); ip -brief address  # on each host: which address is that of the others' network?\n"
            "export GLOO_SOCKET_IFNAME=eth0  # the interface of that network, on all hosts",
            confidence="likely",
            refuted_by="The address in the message can be reached from the other host, and a rank there has not ended.",
        )
        for key, expression in _MESH
    ),
    *(
        failure(
            "cpu_tensor_in_nccl",
            None,
            key,
            expression,
            "NCCL got a tensor that is not on a GPU",
            "The process group uses only NCCL, which accepts only GPU tensors. Metrics, losses as Python numbers and masks are "
            "often on the CPU.",
            "# move it before the call in the traceback: tensor.to(torch.cuda.current_device())\n"
            'dist.init_process_group("cpu:gloo,cuda:nccl")  # a backend for each, from torch 2.0 on',
            refuted_by="tensor.is_cuda is True just before the call.",
            groups={"device": "CPU"},
        )
        for key, expression in (
            ("No backend type associated with device", r"No backend type associated with device type (?P<device>cpu)"),
            ("Tensors must be CUDA and dense", r"Tensors must be CUDA and dense"),
        )
    ),
    failure(
        "world_not_divisible",
        None,
        "is not divisible by",
        r"world[_ ]size \(?(?P<world>\d+)\)? is not divisible by (?P<by>\S[^\n]{0,200})",
        "{world} ranks are not divisible by the parts of the model: {by}",
        "Tensor, pipeline and context parallelism multiply; the number of ranks must be a multiple of that product.",
        "echo $WORLD_SIZE  # nodes × GPUs on each\n"
        "# change the number of ranks, or --tensor-model-parallel-size, --pipeline-model-parallel-size, ...",
        refuted_by="The launcher started a different number of ranks from the one that was asked for.",
    ),
    *(
        failure(
            "engine_ranks",
            None,
            key,
            expression,
            title,
            "An engine is built for tensor parallelism × pipeline parallelism (× context parallelism) ranks, and runs with "
            "exactly that many MPI processes. A script that is started without mpirun is one.",
            "grep -E 'tp_size|pp_size|cp_size|world_size' ENGINE_DIR/config.json  # their product is the number of ranks\n"
            "mpirun -n RANKS python run.py ...",
            refuted_by="mpirun starts as many processes as tp_size × pp_size × cp_size of the engine says.",
        )
        # cpp/tensorrt_llm/runtime/worldConfig.cpp: newer versions print the numbers.
        for key, expression, title in (
            (
                "MPI size ",
                r"\bMPI size (?P<world>\d+) != TP size (?P<tp>\d+) \* PP size (?P<pp>\d+)",
                "TensorRT-LLM got {world} ranks, and the engine needs tensor parallelism {tp} × pipeline parallelism {pp}",
            ),
            (
                "mpiSize == tp",
                r"Assertion failed: mpiSize == tp \* pp",
                "TensorRT-LLM got another number of ranks than the engine needs",
            ),
        )
    ),
    cascade(
        "gloo_peer",
        "G04",
        "gloo/transport",
        r"gloo/transport/.{0,400}(?:Connection closed by peer|Connection reset by peer|Broken pipe)",
        "Another rank is gone",
        "A rank ended, and this one noticed at their next exchange. Whatever ended the other rank is the cause.",
        "# read the log of the rank that failed first",
    ),
    cascade(
        "gloo_timeout",
        "G01",
        "Timed out waiting",
        r"Timed out waiting (?P<ms>\d+)ms for (?P<what>recv|send) operation to complete",
        "A rank waited {ms} ms for another one in a collective",
        "Another rank did not reach the same collective operation: it is stuck, slower than the timeout, or runs other code.",
        "gputop doctor  # while it hangs: says which rank is behind, and where it is\n"
        "dist.init_process_group(..., timeout=timedelta(minutes=30))  # if the wait is meant to be this long",
    ),
    failure(
        "monitored_barrier",
        "G01",
        "failed to pass monitoredBarrier",
        r"Ranks? (?P<ranks>[\d, ]+?) failed to pass monitoredBarrier in (?P<ms>\d+) ms",
        "Rank {ranks} did not reach the barrier within {ms} ms",
        "Rank {ranks} is stuck, slower than the timeout, or runs other code.",
        "# read the log of rank {ranks}\ngputop doctor  # while it hangs: says where each rank is",
    ),
    *(
        cascade("horovod_stall", "G01", key, expression, title, means, fix)
        # horovod/common/stall_inspector.cc, since 0.18; operations.cc, before.
        for key, expression, title, means, fix in (
            (
                "[missing ranks:",
                r"\[missing ranks: ?(?P<ranks>\d{1,6}(?:, ?\d{1,6}){0,40})",
                "Rank {ranks} did not reach a collective operation of Horovod in which others wait",
                "Rank {ranks} is stuck, ended, or runs other code.",
                "# read the log of rank {ranks}\ngputop doctor  # while it hangs: says where each rank is",
            ),
            (
                "[ready ranks:",
                r"\[ready ranks: ?(?P<ready>\d{1,6}(?:, ?\d{1,6}){0,40})",
                "Only rank {ready} reached a collective operation of Horovod, and waits for the others",
                "The other ranks are stuck, ended, or run other code.",
                "# read the logs of the other ranks\ngputop doctor  # while it hangs: says where each rank is",
            ),
            (
                "subset of ranks and are waiting",
                r"One or more tensors were submitted to be reduced.{0,80} by subset of ranks and are waiting",
                "Some Horovod ranks did not reach a collective operation in which others wait",
                "Some ranks are stuck, ended, or run other code. If the next lines list ranks, these are the missing ones; "
                'except for "ready ranks", which wait for the others.',
                "# read the logs of the missing ranks\ngputop doctor  # while it hangs: says where each rank is",
            ),
        )
    ),
    hint(
        "rnn_flat",
        "B08",
        "single contiguous chunk of memory",
        r"RNN module weights are not part of single contiguous chunk of memory",
        "An RNN's weights are compacted on every call",
        "In DataParallel's replicas, the weights of an RNN are scattered in memory; each forward compacts them again.",
        "self.rnn.flatten_parameters()  # first line of forward; better: DistributedDataParallel, which does not replicate",
    ),
)
