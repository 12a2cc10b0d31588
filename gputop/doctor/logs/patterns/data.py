"""Error texts of DataLoader workers, machine limits and forked processes. Pure.

Sources: torch 1.8 to 2.13, torch/utils/data/dataloader.py (_try_get_data, _get_data), torch/utils/data/_utils/worker.py and
aten/src/ATen/MapAllocator.cpp; Lib/multiprocessing (spawn.py, reduction.py) and Modules/_threadmodule.c of Python 3.6 to 3.13.
Of threads: OpenBLAS 0.2 to 0.3, driver/others/blas_server.c; libgomp/team.c of GCC; kmp_i18n of LLVM's and Intel's OpenMP;
jobs.c of bash; std::thread of libstdc++; rayon-core's ThreadPoolBuildError. torch/utils/data/_utils/collate.py, sampler.py and
aten/src/ATen/native/TensorShape.cpp; lightning's utilities/data.py, as posted of 1.5 to 1.9.
"""

from __future__ import annotations

from gputop.doctor.logs.patterns.pattern import Pattern, failure, hint

_SHM_FIX = (
    "docker run --shm-size=8g ...  # or --ipc=host\ndf -h /dev/shm\n"
    'torch.multiprocessing.set_sharing_strategy("file_system")  # if it cannot be enlarged'
)

_UNAVAILABLE = "Resource temporarily unavailable"
_THREADS = (
    (_UNAVAILABLE, rf"OpenBLAS blas_thread_init: pthread_create(?: failed for thread \d+ of \d+)?: {_UNAVAILABLE}"),
    (_UNAVAILABLE, rf"libgomp: Thread creation failed: {_UNAVAILABLE}"),
    ("allocate necessary resources for OMP", r"System unable to allocate necessary resources for OMP thread"),
    ("start new thread", r"RuntimeError: can't start new thread$"),
    (_UNAVAILABLE, rf": fork: (?:retry: )?{_UNAVAILABLE}"),
    (_UNAVAILABLE, rf"an instance of 'std::system_error' +what\(\): +{_UNAVAILABLE}"),
    (_UNAVAILABLE, rf'code: 11, kind: WouldBlock, message: "{_UNAVAILABLE}"'),
)

_UNEQUAL = (
    ("resize storage that is not resizable", r"Trying to resize storage that is not resizable"),
    (
        "stack expects each tensor to be",
        r"stack expects each tensor to be equal size, but got \[[\d, ]*\] at entry 0 and \[",
    ),
    ("each element in list of batch", r"each element in list of batch should be of equal size"),
)
_EMPTY = (
    (
        "across ranks is zero",
        r"MisconfigurationException: Total length of `(?P<what>Data[Ll]oader|CombinedLoader)` across ranks is zero",
    ),
    ("num_samples should be a positive", r"(?P<what>num_samples) should be a positive integer value, but got num_samples=0"),
)

PATTERNS: tuple[Pattern, ...] = (
    *(
        failure(
            "unequal_samples",
            None,
            key,
            expression,
            "Samples of unequal size cannot be put into one batch",
            "The loader stacks the samples of a batch, so that all must have one shape. Images that are only "
            "resized by their shorter side, sequences without padding and clips of any length do not.",
            "transforms.Resize((256, 256))  # both sides; or RandomCrop, or padding in collate_fn\n"
            "print(set(tuple(dataset[i][0].shape) for i in range(500)))  # the shapes; num_workers=0 shows the line",
            confidence="likely",
            refuted_by="All samples of the data set have the same shape.",
        )
        for key, expression in _UNEQUAL
    ),
    *(
        failure(
            "no_samples",
            None,
            key,
            expression,
            "The data set is empty: there is no sample, or no whole batch",
            "The loader has no batch: the path or the filter matched nothing, or drop_last left no whole batch for each rank.",
            "ls PATH | head  # the folder of the data, as the configuration has it: a name may be misspelled\n"
            "print(len(dataset), batch_size, drop_last)  # per rank: len(dataset) / ranks",
            confidence="likely",
            refuted_by="len(dataset) is at least the number of ranks times the batch size.",
        )
        for key, expression in _EMPTY
    ),
    *(
        failure(
            "thread_limit",
            None,
            key,
            expression,
            "No more threads or processes can be started: a limit has been reached",
            "Threads count as processes. Each DataLoader worker and rank starts as many threads as there are cores, once for "
            "OpenMP and once for BLAS, and all of a user's, or of a container's, count together.",
            "ulimit -u; cat /sys/fs/cgroup/pids.max; ps -eLf | wc -l  # the limits, and how many there are\n"
            "export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1  # before the start; or fewer workers\n"
            "docker run --pids-limit=-1 ...  # in a container",
            confidence="likely",
            refuted_by="ps -eLf, just before it happens, shows far fewer threads than ulimit -u and pids.max allow.",
        )
        for key, expression in _THREADS
    ),
    *(
        failure(
            "fork_memory",
            "H05",
            "annot allocate memory",
            expression,
            "The machine had no memory for another process",
            "The kernel reserves memory for the copy of a process that starts another one: a large process that starts workers "
            "needs as much again, unless overcommitment is allowed.",
            "free -h; cat /proc/sys/vm/overcommit_memory  # 2 forbids overcommitment\n"
            "# start the workers before the data are loaded, or fewer of them",
            confidence="likely",
            refuted_by="free -h shows more free memory than the process uses, and overcommit_memory is 0 or 1.",
        )
        for expression in (r"\[Errno 12\] Cannot allocate memory", r": fork: (?:retry: )?Cannot allocate memory")
    ),
    failure(
        "map_limit",
        None,
        "unable to mmap ",
        r"unable to mmap (?P<bytes>\d+) bytes from file <[^>\n]{0,300}>: Cannot allocate memory \(12\)",
        "A tensor of {bytes} bytes could not be mapped: too many maps of memory, or too little memory",
        "Each tensor that a worker sends is mapped on its own, and a process may have 65,530 maps. Many small tensors in a "
        "sample, or batches that are kept, reach that; for a large tensor, the machine's memory is full.",
        "wc -l /proc/PID/maps; cat /proc/sys/vm/max_map_count  # of the process that reads the batches\n"
        "# send few large tensors instead of many small ones, and keep no batches; copies: tensor.clone()\n"
        "sudo sysctl vm.max_map_count=262144",
        confidence="likely",
        refuted_by="/proc/PID/maps has far fewer lines than vm.max_map_count, and free -h shows enough memory.",
    ),
    failure(
        "worker_bus",
        "D08",
        "killed by signal: Bus error",
        r"DataLoader worker \(pid (?P<pid>\d+)\) is killed by signal: Bus error",
        "/dev/shm is full: this killed DataLoader worker {pid}",
        "Workers pass batches through /dev/shm; a container gets only 64 MB of it by default.",
        _SHM_FIX,
    ),
    failure(
        "worker_bus",
        "D08",
        "Unexpected bus error encountered in worker",
        r"Unexpected bus error encountered in worker",
        "/dev/shm is full: this killed a DataLoader worker",
        "Workers pass batches through /dev/shm; a container gets only 64 MB of it by default.",
        _SHM_FIX,
    ),
    failure(
        "worker_killed",
        "H05",
        "is killed by signal:",
        r"DataLoader worker \(pid (?P<pid>\d+)\) is killed by signal: (?P<signal>Killed)",
        "A signal ended DataLoader worker {pid}: {signal}",
        "The machine or the container ran out of memory: each worker has its own copy of Python lists and dicts.",
        "sudo dmesg --ctime | grep -i -E 'killed process|oom' | tail\n"
        "DataLoader(..., num_workers=2)  # fewer; arrays or tensors instead of lists of Python objects\n"
        "DataLoader(..., num_workers=0)  # shows the error itself if it is not memory",
        confidence="likely",
        refuted_by="dmesg and the cgroup record no out-of-memory kill at that time.",
    ),
    failure(
        "worker_crashed",
        None,
        "is killed by signal:",
        r"DataLoader worker \(pid (?P<pid>\d+)\) is killed by signal: (?P<signal>(?!Killed|Bus error)[A-Z][\w ]*)",
        "A signal ended DataLoader worker {pid}: {signal}",
        "Segmentation fault, Aborted, Illegal instruction: native code in the dataset crashed (image or video decoding, a "
        "fork after threads). Terminated: a user or the batch system ended it.",
        "DataLoader(..., num_workers=0)  # the error then occurs in the main process: python -X faulthandler train.py\n"
        'DataLoader(..., multiprocessing_context="spawn")  # if a library does not survive a fork',
    ),
    *(
        failure(
            "worker_killed",
            "H05",
            "exited unexpectedly",
            rf"DataLoader worker \(pid(?:\(s\))? (?P<pid>{pids})\) exited unexpectedly",
            f"DataLoader {who} {{pid}} exited unexpectedly",
            f"{cause} killed (usually for lack of memory), or native code in the dataset crashed.",
            "sudo dmesg --ctime | grep -i -E 'killed process|oom' | tail\n"
            "DataLoader(..., num_workers=0)  # shows the error itself if it is not memory",
            confidence="likely",
            refuted_by="dmesg and the cgroup record no out-of-memory kill at that time.",
        )
        for pids, who, cause in ((r"\d+", "worker", "It was"), (r"\d+, ?[\d, ]+", "workers", "They were"))
    ),
    failure(
        "worker_timeout",
        None,
        "DataLoader timed out after",
        r"DataLoader timed out after (?P<seconds>[\d.]+) seconds",
        "No batch arrived within {seconds} s: the DataLoader's workers are slow or stuck",
        "No batch was ready within the script's timeout: the file system does not answer, the fork copied a lock that was "
        "held, a decoder hangs, or __getitem__ loops forever.",
        "py-spy dump --pid PID  # of a worker, while it waits: where it is\n"
        "DataLoader(..., num_workers=0)  # the stack of the main process then shows what is slow\n"
        'DataLoader(..., multiprocessing_context="spawn")  # if a library does not survive a fork (OpenCV: '
        "cv2.setNumThreads(0))",
        confidence="likely",
        refuted_by="Reading the samples one by one (for i in range(len(dataset)): dataset[i]) never takes as long as the "
        "timeout.",
    ),
    failure(
        "pin_thread",
        None,
        "Pin memory thread",
        r"Pin memory thread exited unexpectedly",
        "The thread that pins batches has ended",
        "An error in the thread (memory, CUDA) ended it before this line.",
        "DataLoader(..., pin_memory=False)  # shows whether the batches themselves are valid",
        confidence="likely",
        refuted_by="The same error occurs with pin_memory=False.",
        vague=True,
    ),
    failure(
        "spawn_main_guard",
        None,
        "finished its bootstrapping phase",
        r"current process has finished its bootstrapping phase",
        "The script starts processes at the top level, outside if __name__ == '__main__'",
        "With spawn, each new process imports the script, and would in turn start processes.",
        "if __name__ == '__main__':\n    main()  # and in main() what starts: DataLoader loops, mp.spawn, vLLM",
        refuted_by="Everything that starts processes is already below if __name__ == '__main__'.",
    ),
    failure(
        "worker_pickle",
        None,
        "pickle",
        r"(?:Can't pickle (?:local object |<function |<class )|cannot pickle ')(?P<what>[^'\n]*)",
        "Something that is saved or sent to another process cannot be pickled",
        "With spawn (and forkserver, Python's own choice from 3.14 on) dataset, collate_fn and arguments are pickled, as by "
        "torch.save and deepcopy: lambdas, functions inside of functions, open files and locks are not.",
        "# define functions at the top of a module; open files in worker_init_fn or at the first __getitem__\n"
        'DataLoader(..., multiprocessing_context="fork")  # if it is safe',
        confidence="likely",
        refuted_by="pickle.dumps(dataset) works, and so does pickle.dumps of collate_fn.",
    ),
    failure(
        "fd_limit",
        "D08",
        "Too many open files",
        r"Too many open files",
        "The limit on open files has been reached",
        "Each tensor that a worker sends keeps a file open until it is released.",
        'ulimit -n 65536\ntorch.multiprocessing.set_sharing_strategy("file_system")',
    ),
    failure(
        "fd_limit",
        "D08",
        "items of ancdata",
        r"received \d+ items of ancdata",
        "The limit on open files has been reached",
        "A worker's tensor could not be received: each keeps a file open, and the limit has been reached.",
        'ulimit -n 65536\ntorch.multiprocessing.set_sharing_strategy("file_system")',
    ),
    hint(
        "too_many_workers",
        "D02",
        "worker processes in total",
        r"This DataLoader will create (?P<workers>\d+) worker processes in total\. "
        r"Our suggested max number of worker in current system is (?P<cores>\d+)",
        "{workers} workers for each rank on {cores} cores",
        "If there are more workers than cores, they wait for each other; each rank starts its own workers.",
        "DataLoader(..., num_workers={cores})  # divided by the number of ranks on this machine",
        severity="info",  # many workers that mostly sleep cost nothing
    ),
    failure(
        "fork_cuda",
        None,
        "CUDA in forked subprocess",
        r"Cannot re-initialize CUDA in forked subprocess",
        "CUDA was used in a forked process",
        "A worker uses CUDA although it was forked after CUDA was initialized: the dataset creates or returns CUDA tensors.",
        "# return CPU tensors from __getitem__ and move the batch in the loop; or:\n"
        'DataLoader(..., multiprocessing_context="spawn")',
    ),
    hint(
        "no_labels",
        None,
        "No labels found in ",
        # Ultralytics' dataset.py, and YOLOv5 and YOLOv7 before it.
        r"WARNING\b.{0,20}\bNo labels found in (?P<where>\S{1,400}?)(?:, training may|\. |\.?$)",
        "No labels were found in {where}: every image counts as empty",
        "The label files are not where the trainer looks for them, or have other names than the images. It looks for "
        "labels/NAME.txt beside images/NAME.jpg; a cache may also hold what was there before.",
        "ls {where}  # beside the folder images there must be labels, with a .txt for each image\n"
        "# then delete the *.cache files",
        severity="error",
        lasting=True,
    ),
    failure(
        "no_training_data",
        None,
        "No data found. ",
        # kohya's sd-scripts, train_network.py and others.
        r"No data found\. Please verify (?:arguments|the metadata file)(?P<why>[^/]{0,200})",
        "The trainer found no image to train on",
        "train_data_dir must be the parent of folders called REPEATS_NAME, such as img/10_cat, which hold the images: images "
        "directly in it do not count.",
        'mkdir -p img/10_NAME && mv *.jpg img/10_NAME/  # and train_data_dir="img"',
        refuted_by="The folder has a subfolder whose name begins with a number and an underscore, with images.",
    ),
    hint(
        "pin_no_accel",
        "A12",
        "'pin_memory' argument is set as true",
        r"'pin_memory' argument is set as true but (?:no accelerator is found|not supported)",
        "pin_memory is on, but torch sees no GPU",
        "torch finds no accelerator, so the training runs on the CPU.",
        "gputop doctor --before  # says why torch sees no GPU; on the CPU on purpose: pin_memory=False",
        confidence="possible",  # the CPU may be meant: transformers' Trainer pins memory by default
    ),
)
