"""How a process ended, in the words of the shell, the C libraries, Python, Slurm and Open MPI. Pure.

Sources: strsignal of glibc and its malloc_printerr; vterminate.cc of libstdc++; Python/pylifecycle.c and Lib/subprocess.py;
torch/multiprocessing/spawn.py; slurmstepd's req.c and srun's task_state; orterun's help texts; launcher/launch.py of
DeepSpeed; kubectl describe; ray's worker_killing_policy and exceptions.py.
"""

from __future__ import annotations

from gputop.doctor.logs.patterns.pattern import Pattern, cascade, failure

_NATIVE = (
    "PYTHONFAULTHANDLER=1 python train.py  # names the line of Python at which it happens\n"
    "pip list | grep -i -E 'torch|cuda|nvidia'  # extensions built for another torch or CUDA?"
)
BUS_CAUSE = (
    "Memory that stands for a file could not be filled: /dev/shm is full (a container gets only 64 MB of it by default), the "
    "disk or the quota is, or a mapped file was cut meanwhile."
)
BUS_FIX = (
    "df -h /dev/shm /tmp ~/.cache; quota -s  # while it runs\n"
    "docker run --shm-size=16g ...  # Kubernetes: an emptyDir volume with medium: Memory, mounted at /dev/shm"
)
BUS_REFUTED = "When it happens, df shows free space in /dev/shm and on the disks whose files the process maps."
_HEAP = "Native code wrote outside its memory. Often two libraries were built against different versions of a third."
_KILLED = (
    # The words of bash, dash and zsh; a line of its own, or behind the number of the process.
    ("Killed", r"(?:^|\s)\d+ Killed(?:: 9)?(?:\s|$)|^Killed(?:: 9)?\s*$|^\[\d+\][+-]?\s+Killed\s"),
    ("killed", r"^zsh: killed\b"),
    ("Killed", r"(?:it/s|s/it|\?)\]Killed$"),  # behind a progress bar, which ends no line
    # torch.multiprocessing.spawn; subprocess, also of accelerate and lightning; DeepSpeed's launcher.
    ("signal SIGKILL", r"process \d+ terminated with signal SIGKILL"),
    ("Signals.SIGKILL", r"died with <Signals\.SIGKILL: 9>"),
    ("non-zero exit status -9", r"returned non-zero exit status -9\b"),
    ("return code = -9", r"exits with return code = -9\b"),
    # A pool of processes misses one: concurrent.futures, and datasets' map.
    ("terminated abruptly", r"A process in the process pool was terminated abruptly"),
    ("abruptly died", r"One of the subprocesses has abruptly died"),
    # Kubernetes (kubectl describe), and docker inspect.
    ("OOMKilled", r"^\s*Reason:\s+OOMKilled\s*$|\"OOMKilled\": ?true\b"),
    # make, MPICH's Hydra, and Cray's aprun.
    ("Killed", r"^make(?:\[\d+\])?: \*\*\* .{1,200}\bKilled$"),
    ("EXIT STRING: ", r"TERMINATED WITH THE EXIT STRING: Killed \(signal 9\)"),
    ("exit signals: ", r"^Application \d+ exit signals: Killed"),
    # Ray's monitor of a node's memory.
    ("running low on memory", r"killed due to the node running low on memory"),
    ("memory pressure", r"\(tasks / actors\) killed due to memory pressure \(OOM\)"),
)
_AFTER = "Read what the process printed before this line, which only says that it ended."

_KERNEL = (
    # Kaggle's page, and Colab's.
    ("tried to allocate more memory than is available", r"notebook tried to allocate more memory than is available"),
    ("using all available RAM", r"session crashed after using all available RAM"),
)
_KERNEL_DIED = (
    # Jupyter's page and its server's log, VS Code, and nbclient, which papermill and nbconvert run notebooks with.
    ("appears to have died", r"[Kk]ernel\b.{0,80} appears to have died"),
    ("ernel died", r"DeadKernelError: Kernel died|^Kernel died"),
    ("KernelRestarter: restarting kernel", r"KernelRestarter: restarting kernel \("),
    ("ernel crashed while executing code", r"Kernel crashed while executing code"),
)

PATTERNS: tuple[Pattern, ...] = (
    *(
        failure(
            "kernel_memory",
            "H05",
            key,
            expression,
            "The notebook's kernel was ended: it needed more memory than its machine or container has",
            "Data that is kept in memory, copies of it in each loader worker, or results that a loop collects.",
            "free -h  # while it runs: how fast it grows\n"
            "# read samples in __getitem__ rather than all at once, fewer loader workers, arrays instead of lists; del results",
            refuted_by="free -h, in another cell or a terminal, shows free memory when it happens.",
        )
        for key, expression in _KERNEL
    ),
    *(
        failure(
            "kernel_died",
            "H05",
            key,
            expression,
            "The notebook's kernel died",
            "Most kernels that die have used up their memory; the others crash in native code.",
            "sudo dmesg --ctime | grep -i -E 'killed process|oom' | tail  # Linux says here if it was the memory\n"
            "jupyter nbconvert --to script NOTEBOOK.ipynb && python -X faulthandler NOTEBOOK.py  # shows the line otherwise",
            confidence="possible",
            refuted_by="dmesg has no out-of-memory kill at that time: native code crashed, or somebody restarted it.",
        )
        for key, expression in _KERNEL_DIED
    ),
    failure(
        "python_fatal",
        None,
        "Fatal Python error",
        r"Fatal Python error: (?P<why>.+)",
        "A fault in native code ended Python: {why}",
        "A C or CUDA extension crashed, not Python code. The stacks below show the lines that called it.",
        _NATIVE,
    ),
    *(
        failure(
            "heap_corrupted",
            None,
            f"{call}(): ",
            rf"(?:^|\s)(?P<call>{call})\(\): (?P<why>(?:invalid|unaligned|corrupted|unsorted|mismatching|memory)[\w ()>&.-]+)",
            "The process's memory was corrupted: {call}(): {why}",
            _HEAP,
            _NATIVE,
        )
        for call in ("free", "malloc", "realloc", "munmap_chunk", "malloc_consolidate", "calloc")
    ),
    failure(
        "heap_corrupted",
        None,
        "stack smashing detected",
        r"\*\*\* (?P<why>stack smashing detected) \*\*\*",
        "The process's memory was corrupted: {why}",
        _HEAP,
        _NATIVE,
    ),
    failure(
        "heap_corrupted",
        None,
        "corrupt",
        r"(?P<why>double free or corruption[^\n]*|corrupted size vs\. prev_size|corrupted double-linked list)",
        "The process's memory was corrupted: {why}",
        _HEAP,
        _NATIVE,
    ),
    failure(
        "bad_alloc",
        "H05",
        "std::bad_alloc",
        r"(?:an instance of '|what\(\): +)std::bad_alloc\b",
        "Native code could not allocate memory (std::bad_alloc)",
        "The limit on address space (ulimit -v) or the machine's memory was exhausted, or a damaged file led to an absurd "
        "size.",
        "ulimit -v; free -h\n# fewer DataLoader workers, arrays instead of lists of Python objects, more memory for the job",
        confidence="likely",
        refuted_by="When it happens, free -h shows free memory, and ulimit -v says unlimited.",
    ),
    failure(
        "cpp_terminate",
        None,
        "terminate called after throwing",
        r"terminate called after throwing an instance of '(?P<type>[^']+)' +what\(\): *(?P<why>\S.{0,300})",
        "Native code ended the process with {type}: {why}",
        "A C++ exception that nothing caught.",
        _NATIVE,
        confidence="likely",
    ),
    failure(
        "cpp_terminate",
        None,
        "terminate called",
        r"terminate called (?:after throwing an instance of '(?P<type>[^']+)'|"
        r"(?P<how>recursively|without an active exception))",
        "Native code ended the process: {type}{how}",
        "A C++ exception that nothing caught; a following line that begins with what() says which. Without an active "
        "exception, a thread was destroyed while it was running.",
        _NATIVE,
        confidence="likely",
        groups={"type": "", "how": ""},
    ),
    failure(
        "panic",
        None,
        "panicked at ",
        r"thread '(?P<thread>[^']{0,100})' (?:\(\d+\) )?panicked at (?P<place>\S+:\d+:\d+):? (?P<why>\S.{0,300})",
        "A library written in Rust panicked at {place}: {why}",
        "A package such as tokenizers, safetensors or polars encountered something that it does not handle.",
        "RUST_BACKTRACE=1 python train.py  # shows which call of the package it was",
        confidence="likely",
        refuted_by="The script continues after this message.",
    ),
    failure(
        "panic",
        None,
        "panicked at ",
        r"thread '(?P<thread>[^']{0,100})' panicked at '(?P<why>.{1,300})', (?P<place>\S+:\d+:\d+)",
        "A library written in Rust panicked at {place}: {why}",
        "A package such as tokenizers, safetensors or polars encountered something that it does not handle.",
        "RUST_BACKTRACE=1 python train.py  # shows which call of the package it was",
        confidence="likely",
        refuted_by="The script continues after this message.",
    ),
    failure(
        "openmp_twice",
        None,
        "OMP: Error #15",
        r"OMP: Error #15: Initializing (?P<file>[\w./+-]+), but found (?P<other>[\w./+-]+) already initialized",
        "Two copies of the OpenMP runtime are loaded: {file} and {other}",
        "torch, NumPy and other packages bring a runtime of their own; packages of conda and pip are mixed here. The runtime "
        "ends a process that holds two.",
        "conda install nomkl  # or all of torch, numpy and scipy from one source, in a new environment\n"
        "KMP_DUPLICATE_LIB_OK=TRUE python train.py  # for the moment: Intel warns of crashes and wrong results",
        refuted_by="KMP_DUPLICATE_LIB_OK is set, and the process continues.",
    ),
    failure(
        "glibc_version",
        None,
        "not found (required by",
        r"version [`'](?P<version>GLIBC(?:XX)?_[\d.]{1,20})' not found \(required by (?P<file>[^)]{1,400})\)",
        "{file} needs {version}, which this system does not have",
        "The library was built on a newer system; the C or C++ library here is older.",
        "ldd --version  # use a wheel or container for this system, or the environment's own libstdc++ (LD_LIBRARY_PATH)",
    ),
    failure(
        "library_missing",
        None,
        "cannot open shared object file",
        # NCCL does without its plug-ins, and torchvision without its readers of pictures.
        r"(?<![\w./+-])(?<!Python extension: )(?<!Python extension: ')"
        r"(?P<file>(?!libnccl-)[\w./+-]+\.so[\w.]{0,40}): cannot open shared object file: (?P<why>.+)",
        "The library {file} is missing",
        "An extension was built for a version of CUDA, cuDNN or another library that is not on the library path here.",
        "ldconfig -p | grep {file}; echo $LD_LIBRARY_PATH\npip install --force-reinstall torch  # brings its own CUDA "
        "libraries",
    ),
    failure(
        "slurm_time_limit",
        None,
        "DUE TO TIME LIMIT",
        r"(?:JOB|STEP) (?P<job>[\d._]+) ON (?P<host>\S+) CANCELLED AT (?P<at>\S+) DUE TO TIME LIMIT",
        "Slurm ended job {job}: its time limit was reached",
        "The job used up the time that it had requested. Everything trained since its last checkpoint is lost.",
        "sbatch --time=DD-HH:MM:SS --signal=B:USR1@120 ...  # more time, and two minutes' notice to save a checkpoint",
    ),
    failure(
        "slurm_preempted",
        None,
        "DUE TO ",
        r"(?:JOB|STEP) (?P<job>[\d._]+) ON (?P<host>\S+) CANCELLED AT (?P<at>\S+) DUE TO "
        r"(?P<why>PREEMPTION|NODE FAILURE|JOB REQUEUE)",
        "Slurm ended job {job}: {why}",
        "Something outside the job ended it, not an error of its own.",
        "sbatch --requeue ...  # and continue from the last checkpoint",
    ),
    failure(
        "slurm_cancelled",
        None,
        "CANCELLED AT",
        r"(?:JOB|STEP) (?P<job>[\d._]+) ON (?P<host>\S+) CANCELLED AT (?P<at>[\dT:-]+) \*\*\*",
        "Job {job} was canceled",
        "A user ended it with scancel, or Slurm did because another task of the job had failed.",
        "sacct -j {job} --format=JobID,State,ExitCode,Reason  # or squeue, scontrol show job {job}",
        confidence="likely",
    ),
    failure(
        "srun_killed",
        None,
        "srun: error:",
        r"srun: error: (?P<host>\S+): tasks? (?P<tasks>[\d,-]+): Killed",
        "Task {tasks} on {host} was killed",
        "Nothing in it failed: it got SIGKILL there, from the kernel when memory ran out, or from somebody. The tasks on the "
        "other nodes wait for it, or Slurm ends them.",
        "ssh {host} sudo dmesg --ctime | grep -i -E 'killed process|oom' | tail\n"
        "sacct -j JOB --format=JobID,NodeList,State,ExitCode,MaxRSS  # what each step used",
        confidence="likely",
    ),
    cascade(
        "srun_exit",
        "G04",
        "srun: error:",
        r"srun: error: (?P<host>\S+): tasks? (?P<tasks>[\d,-]+): (?:Exited with exit code "
        r"(?P<code>\d+)|(?P<why>Terminated|Aborted))",
        "Task {tasks} on {host} ended",
        _AFTER,
        "# the output of task {tasks}: srun --label, or --output=%j-%t.log",
    ),
    cascade(
        "mpi_exit",
        "G04",
        "rocess returned",
        r"Primary job\s+terminated normally, but \d+ process returned",
        "A rank of mpirun ended with an error",
        _AFTER,
        "mpirun --tag-output ...  # names the rank that printed each line",
    ),
    cascade(
        "mpi_exit",
        "G04",
        "noticed that process rank",
        r"noticed that process rank (?P<number>\d+) with PID \d+ on node (?P<host>\S+) exited on signal (?P<signal>\d+)",
        "Rank {number} on {host} was ended by signal {signal}",
        _AFTER,
        "mpirun --tag-output ...  # names the rank that printed each line",
    ),
    *(
        cascade(
            "paddle_exit",
            "G04",
            key,
            expression,
            title,
            _AFTER,
            "# read {file}, which has what the rank printed",
        )
        # python/paddle/distributed/launch/controllers: the container's line follows, then the end of its log.
        for key, expression, title in (
            (
                "Container rank ",
                r"^Container rank (?P<number>\d+) status failed cmd .{0,3000}? code (?P<code>-?\d+) log (?P<file>\S+)",
                "Rank {number} of Paddle's launcher ended with exit code {code}",
            ),
            ("Container failed !!!", r"LAUNCH ERROR .{1,60}Container failed !!!", "A rank of Paddle's launcher failed"),
        )
    ),
    cascade(
        "ray_worker_died",
        "G04",
        "its worker process has died",
        # src/ray/gcs/gcs_server/gcs_actor_manager.cc: part of the message of ActorDiedError.
        r"The actor is dead because its worker process has died\. Worker exit type: "
        r"(?P<how>SYSTEM_ERROR|UNEXPECTED_SYSTEM_EXIT)",
        "A worker of Ray died ({how})",
        "Its process ended without an exception: it was killed, for which memory is the usual reason, or native code crashed. "
        "Ray only sees that the connection closed.",
        "ls -t /tmp/ray/session_latest/logs/*.err | head  # on the worker's host: its last words\n"
        "sudo dmesg --ctime | grep -i -E 'killed process|oom|segfault' | tail",
    ),
    cascade(
        "deepspeed_exit",
        "G04",
        "exits with return code",
        r"exits with return code = (?P<code>-?\d+)",
        "A rank of DeepSpeed ended with exit code {code}",
        _AFTER,
        "# read what the rank printed before this line",
    ),
    *(
        failure(
            "killed",
            "H05",
            key,
            expression,
            "A process was killed from outside",
            "Nothing in it failed: it got SIGKILL, which the kernel sends when the machine or the container runs out of "
            "memory. A batch system's limit and kill -9 do the same.",
            "sudo dmesg --ctime | grep -i -E 'killed process|oom' | tail\n"
            "# fewer processes and DataLoader workers, arrays instead of lists of Python objects, more memory for the job",
            confidence="likely",
        )
        for key, expression in _KILLED
    ),
    failure(
        "signal_crash",
        None,
        "terminated with signal SIG",
        r"process \d+ terminated with signal (?P<why>SIG(?:SEGV|BUS|ILL|FPE))",
        "A process crashed in native code: {why}",
        "A C or CUDA extension crashed, not Python code.",
        _NATIVE,
        confidence="likely",
    ),
    failure(
        "signal_crash",
        None,
        " (core dumped)",
        r"(?P<why>Segmentation fault|Bus error|Illegal instruction|Floating point exception)\s*\(core dumped\)",
        "A process crashed in native code: {why}",
        "A C or CUDA extension crashed. A full /dev/shm can also cause a bus error, and a program built for another "
        "processor an illegal instruction.",
        _NATIVE,
        confidence="likely",
    ),
    failure(
        "signal_crash",
        None,
        "Caught signal ",
        r"Caught signal (?:7|4|8|11) \((?P<why>[A-Z][\w ]{1,40})",
        "A process crashed in native code: {why}",
        "A C or CUDA extension crashed, not Python code. The stack below names the functions.",
        _NATIVE,
        confidence="likely",
    ),
    *(
        failure(
            "signal_crash",
            None,
            key,
            # Of its own, or behind the script and the line, as bash reports it.
            rf"(?:^|: line \d{{1,6}}: +\d{{1,9}} )(?P<why>{why})(?:\s*$|\s{{2,60}}\S)",
            "A process crashed in native code: {why}",
            "A C or CUDA extension crashed. A full /dev/shm can also cause a bus error, and a program built for another "
            "processor an illegal instruction.",
            _NATIVE,
            confidence="likely",
        )
        for key, why in (
            ("Bus error", "Bus error"),
            ("llegal instruction", "Illegal instruction"),
            ("loating point exception", "Floating point exception"),
        )
    ),
    failure(
        "signal_crash",
        None,
        "failed (exitcode: -",
        r"failed \(exitcode: -(?P<why>4|8|11)\) local_rank: (?P<local>\d+) \(pid: (?P<pid>\d+)\)",
        "The process with local rank {local} crashed in native code (signal {why})",
        "A C or CUDA extension crashed, not Python code: 11 is a segmentation fault, 4 an illegal instruction, 8 a division "
        "by zero.",
        _NATIVE,
        confidence="likely",
    ),
    failure(
        "bus_error",
        "D08",
        "failed (exitcode: -7)",
        r"failed \(exitcode: -7\) local_rank: (?P<local>\d+) \(pid: (?P<pid>\d+)\)",
        "The process with local rank {local} ended with a bus error (SIGBUS)",
        BUS_CAUSE,
        BUS_FIX,
        confidence="likely",
        refuted_by=BUS_REFUTED,
    ),
    cascade(
        "elastic_exit",
        "G04",
        "failed (exitcode: ",
        r"failed \(exitcode: (?P<code>\d+|-(?:1|2|3|6|15))\) local_rank: (?P<local>\d+) \(pid: (?P<pid>\d+)\)",
        "The process with local rank {local} ended with exit code {code}",
        _AFTER,
        "torchrun --log-dir logs --tee 3 ...  # keeps what each rank says",
    ),
    failure(
        "signal_crash",
        None,
        "egmentation fault",
        r"(?:^|\d |: |\()(?P<why>Segmentation fault)(?:\s|$|:)",
        "A process crashed in native code: {why}",
        "A C or CUDA extension crashed, not Python code.",
        _NATIVE,
        confidence="likely",
    ),
)
