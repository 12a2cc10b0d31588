"""Texts of packages that are missing, of another version, or built for another torch; and of compilers. Pure.

Sources: Lib/importlib/_bootstrap.py and Python/ceval.c of Python 3.6 to 3.13; elf/dl-lookup.c of glibc; transformers/utils/
versions.py (4.0 to 5.x); torch/csrc/utils/tensor_numpy.cpp (1.8 to 2.13); google/protobuf/descriptor.py (4 to 6);
torch/library.py; torch/_inductor/cpp_builder.py and exc.py (2.0 to 2.13), torch/utils/cpp_extension.py; triton/
runtime/build.py (2.0 to 3.x); op_builder/builder.py of DeepSpeed (0.3 to 0.18); crt/host_config.h of CUDA (9 to 13), and what
gcc, clang, nvcc, ptxas, nvlink and ld print.
"""

from __future__ import annotations

from gputop.doctor.logs.patterns.pattern import Pattern, failure, reason

_INSTALLED = "python -c 'import {name}' works in the environment that runs the script."
_NAMES = (
    # Packages whose import has another name than what pip installs, or that pip's package of that name is not.
    (
        "apex",
        "pip install -v --no-build-isolation git+https://github.com/NVIDIA/apex  # pip's own 'apex' is another package\n"
        "torch.amp.autocast, torch.nn.parallel.DistributedDataParallel  # do in torch itself what apex.amp and "
        "apex.parallel did",
    ),
    ("cv2", "pip install opencv-python-headless"),
    ("sklearn", "pip install scikit-learn"),
    ("skimage", "pip install scikit-image"),
    ("yaml", "pip install pyyaml"),
    ("PIL", "pip install pillow"),
    ("bs4", "pip install beautifulsoup4"),
    ("dateutil", "pip install python-dateutil"),
    ("pycocotools", "pip install pycocotools"),
    ("flash_attn", "pip install flash-attn --no-build-isolation  # needs nvcc of the CUDA that torch was built with"),
    ("mmcv", "pip install openmim && mim install mmcv"),
    ("detectron2", "pip install --no-build-isolation git+https://github.com/facebookresearch/detectron2"),
)
_MEANS = (
    "The package is missing, or is installed in an environment other than the script's. Python looks for your own modules "
    "in the script's directory and on PYTHONPATH."
)
_WHICH = "which python torchrun; python -m pip show {name}  # the environment that runs the script\n"

_TOOLCHAIN = (
    (
        "unsupported GNU version",
        r"#error -- unsupported GNU version! gcc versions later than (?P<newest>\d+) are not supported",
        "The CUDA toolkit accepts gcc up to version {newest}, and a newer one is installed",
        "nvcc refuses host compilers that are newer than itself.",
        "apt-get install -y gcc-{newest} g++-{newest}; CC=gcc-{newest} CXX=g++-{newest} python train.py\n"
        "nvcc --version  # or a newer toolkit, of the CUDA version that torch was built with",
    ),
    (
        "unsupported clang version",
        r"#error -- unsupported clang version!(?: clang version must be less than (?P<bound>\d+))?",
        "The CUDA toolkit does not accept this version of clang",
        "nvcc refuses host compilers that are newer than itself.",
        "CC=gcc CXX=g++ python train.py  # or an older clang",
    ),
    (
        "Python.h",
        r"fatal error: '?Python\.h'?(?:: No such file or directory| file not found)",
        "Python.h is missing: Python's headers are not installed",
        "Triton and torch.compile build small modules at run time, and pip builds extensions: both need the headers of the "
        "Python that runs the script.",
        "apt-get install -y python3-dev  # or python3.12-dev: the version of the script's Python; Fedora: python3-devel",
    ),
    (
        "fatal error: ",
        r"fatal error: '?(?P<file>[\w./+-]{1,200})'?(?:: No such file or directory| file not found)",
        "A header is missing: {file}",
        "The compiler does not find a file that the source includes: its package is not installed, or not on the include path.",
        "apt-file search {file}  # or dnf provides; a header of CUDA comes with the toolkit: CUDA_HOME=/usr/local/cuda",
    ),
    (
        "cannot find -l",
        r"\bld(?:\.\w+)?: cannot find -l(?P<library>[\w+.-]+)",
        "The linker does not find lib{library}.so",
        "The library is not installed, or not in a directory that the linker searches.",
        "ldconfig -p | grep {library}\n"
        "LIBRARY_PATH=/usr/local/cuda/lib64/stubs python train.py  # for -lcuda: the toolkit's stub",
    ),
    (
        "Killed signal terminated",
        r"Killed signal terminated program (?P<program>cc1plus|cicc|ptxas|cudafe\+\+)",
        "The compiler was killed, probably because memory ran out",
        "{program} got SIGKILL: this many compilers at once need more memory than the host or container has.",
        "MAX_JOBS=2 python train.py  # or pip install: fewer compilers at once",
    ),
    (
        "fatal   : ",
        r"\b(?P<program>nvcc|ptxas|nvlink|cicc) fatal   : (?P<why>.+)",
        "{program} refuses: {why}",
        "The CUDA toolkit does not know the architecture, the option or the file: often it is older than the card.",
        "nvcc --version  # and a toolkit of the version that torch was built with: torch.version.cuda\n"
        "TORCH_CUDA_ARCH_LIST=8.0 python train.py  # the card's own: torch.cuda.get_device_capability()",
    ),
    (
        ": error: ",
        r"(?<!\S)(?P<place>[\w./+-]{1,200}\.(?:c|cc|cpp|cxx|cu|cuh|h|hpp):\d+(?::\d+)?): error: (?P<why>(?!#error).+)",
        "{place} does not compile: {why}",
        "The source does not match the installed torch, CUDA or compiler.",
        "# read the lines below {place}: other errors often follow from the first",
    ),
    (
        "): error: ",
        r"(?<!\S)(?P<place>[\w./+-]{1,200}\.(?:cu|cuh|h|hpp|cpp)\(\d+\)): error: (?P<why>.+)",
        "{place} does not compile: {why}",
        "The source does not match the installed torch, CUDA or compiler.",
        "# read the lines below {place}: other errors often follow from the first",
    ),
)

PATTERNS: tuple[Pattern, ...] = (
    *(
        reason("toolchain", key, expression, title, means, fix, "The same source compiles in the same shell or container.")
        for key, expression, title, means, fix in _TOOLCHAIN
    ),
    failure(
        "extension_build",
        None,
        "Error building extension",
        r"Error building extension '(?P<name>[^']+)'",
        "The extension {name} could not be built",
        "torch compiles it at run time with nvcc and the host's compiler; their own messages are above, after FAILED:.",
        "nvcc --version; gcc --version  # a toolkit of torch.version.cuda, and a gcc that it accepts\n"
        "rm -rf ~/.cache/torch_extensions  # what an interrupted build left behind",
        vague=True,
        refuted_by="ninja -v in the extension's build folder succeeds.",
    ),
    *(
        failure(
            "module_missing",
            None,
            "No module named",
            rf"(?:ModuleNotFoundError|ImportError): No module named '?(?P<name>{name})(?![\w.])",
            "The package {name} is not installed here",
            _MEANS,
            f"{_WHICH}{fix}",
            refuted_by=_INSTALLED,
        )
        for name, fix in (*((name, fix) for name, fix in _NAMES), (r"\w+", "python -m pip install {name}"))
    ),
    failure(
        "module_part",
        None,
        "No module named",
        r"(?:ModuleNotFoundError|ImportError): No module named '?(?P<name>\w+)\.(?P<part>[\w.]+)",
        "{name} is installed, but has no module {name}.{part}",
        "Python names the first part that it does not find: {name} was found. Its version is another than the code was written "
        "for, or another folder or file named {name} comes first on the path.",
        "python -c 'import {name}; print({name}.__file__, getattr({name}, \"__version__\", None))'  # the one that is found\n"
        "# of a package: the version that the importing code needs, or a newer version of what imports it\n"
        "# of your own: start in the directory that contains {name}, or put it on PYTHONPATH",
        refuted_by="python -c 'import {name}.{part}' works in the environment and directory that run the script.",
    ),
    failure(
        "module_missing",
        None,
        "No module named",
        r"^\S*python[\d.]*: No module named (?P<name>[\w.]+)",
        "Python finds no module {name} to run",
        _MEANS,
        f"{_WHICH}python -m pip install {{name}}",
        refuted_by=_INSTALLED,
    ),
    failure(
        "import_name",
        None,
        "cannot import name",
        r"ImportError: cannot import name '?(?P<what>\w+)'? from (?P<partly>partially initialized module "
        r")?'?(?P<name>[\w.]+)'?",
        "{what} cannot be imported from {name}",
        "The code was written for a different version of the package, or a file of your own has the package's name and "
        "comes first (then the text names its path, and a circular import).",
        "python -c 'import {name}; print({name}.__file__, getattr({name}, \"__version__\", None))'\n"
        "# install the version that the code names in its requirements; rename a file of your own of that name",
        confidence="likely",
        refuted_by="python -c 'from {name} import {what}' works in the same environment.",
    ),
    failure(
        "version_required",
        None,
        " is required for a normal functioning of this module",
        r"(?<![\w.\[\]-])(?P<wanted>[\w.\[\]-]{1,100}(?:[<>=!~]=?[\w.,<>=!]{1,100})?) is required for a normal functioning "
        r"of this module, but found (?P<found>[\w.=-]+)",
        "{wanted} is required, and {found} is installed",
        "Two packages of the environment do not match: one was installed or upgraded without the other.",
        "python -m pip install {wanted}; python -m pip check",
        refuted_by="python -m pip check finds nothing in the environment that runs the script.",
    ),
    failure(
        "undefined_symbol",
        None,
        "undefined symbol",
        r"(?<![^\s:])(?P<file>[^\s:]+\.so[\w.]{0,40}): undefined symbol: (?P<symbol>\w+)",
        "{file} was built for another version of torch or CUDA (undefined symbol)",
        "A compiled extension needs a function that the installed library does not have: torch was upgraded or downgraded "
        "after the extension was built.",
        'python -c "import torch; print(torch.__version__, torch.version.cuda, torch.compiled_with_cxx11_abi())"\n'
        "# build the extension again: python -m pip install --force-reinstall --no-cache-dir --no-build-isolation PACKAGE",
        refuted_by="The import works in a fresh Python of the same environment, without LD_LIBRARY_PATH.",
    ),
    failure(
        "no_compiler",
        None,
        "compiler",
        r"(?P<why>Failed to find C compiler|No working C\+\+ compiler found|InvalidCxxCompiler|"
        r"[Ff]ailed to find (?:a )?C(?:\+\+)? compiler)",
        "There is no C compiler, which torch.compile and Triton need",
        "Triton and torch.compile build small programs at run time; slim images have no compiler.",
        "apt-get install -y build-essential python3-dev  # in the image; or point to one: CC=gcc CXX=g++\n"
        "TORCHDYNAMO_DISABLE=1 python train.py  # without torch.compile",
        refuted_by="gcc --version works in the same shell or container, and CC names no other program.",
    ),
    failure(
        "cuda_mismatch",
        None,
        "does not match the version torch was compiled with",
        r"Installed CUDA version (?P<found>[\d.]+) does not match the version torch was compiled with (?P<built>[\d.]+)"
        r"(?![\d.]| but since the APIs are compatible)",
        "nvcc belongs to CUDA {found}, but torch was built with CUDA {built}",
        "A CUDA extension must be compiled with the version of CUDA that torch was built with.",
        "ls -d /usr/local/cuda-*; CUDA_HOME=/usr/local/cuda-{built} python train.py  # a toolkit of that version\n"
        "# or a build of torch for CUDA {found}: pytorch.org's selector",
        refuted_by="nvcc --version of $CUDA_HOME names the version of torch.version.cuda.",
    ),
    failure(
        "cuda_mismatch",
        None,
        "mismatches the version that was used to compile",
        r"detected CUDA version \((?P<found>[\d.]+)\) mismatches the version that was used to compile\s*PyTorch "
        r"\((?P<built>[\d.]+)\)",
        "nvcc belongs to CUDA {found}, but torch was built with CUDA {built}",
        "A CUDA extension must be compiled with the version of CUDA that torch was built with.",
        "ls -d /usr/local/cuda-*; CUDA_HOME=/usr/local/cuda-{built} python -m pip install --no-build-isolation PACKAGE",
        refuted_by="nvcc --version of $CUDA_HOME names the version of torch.version.cuda.",
    ),
    failure(
        "cuda_home",
        None,
        "CUDA_HOME",
        r"(?P<why>CUDA_HOME does not exist, unable to compile|CUDA_HOME environment variable is not set\. Please set it)",
        "An extension must be compiled, but there is no CUDA toolkit",
        "torch contains CUDA's libraries, but not nvcc, which builds extensions.",
        "which nvcc; ls -d /usr/local/cuda*  # then: export CUDA_HOME=/usr/local/cuda\n"
        'python -c "import torch; print(torch.version.cuda)"  # the version of the toolkit to install',
        refuted_by="$CUDA_HOME/bin/nvcc --version works in the same shell.",
    ),
    *(
        failure(
            "bnb_no_binary",
            None,
            key,
            expression,
            "bitsandbytes was installed without a library for this CUDA",
            "Its CUDA functions are missing: this release has no binary for the CUDA version of the installed torch.",
            "python -m bitsandbytes  # says what it looks for\npython -m pip install --upgrade bitsandbytes",
            confidence="likely",
            refuted_by="python -m bitsandbytes succeeds in the same environment.",
        )
        for key, expression in (
            (
                "'NoneType' object has no attribute 'c",
                # Any object that is None lacks attributes: these are functions of its library.
                r"AttributeError: 'NoneType' object has no attribute '(?:cget_col_row_stats|cget_managed_ptr"
                r"|c(?:quantize|dequantize|dequant_mm|gemm_4bit|gemv_4bit|adam|ademamix|adagrad|lion|momentum|rmsprop)"
                r"\w{0,60}_(?:bf16|fp16|fp32)(?:_(?:fp4|nf4))?)'",
            ),
            ("Setup failed despite", r"CUDA Setup failed despite (?:GPU|CUDA) being available"),
        )
    ),
    failure(
        "numpy_bridge",
        None,
        "Numpy is not available",
        r"RuntimeError: Numpy is not available",
        "torch cannot use the installed NumPy",
        "torch was built for another major version of NumPy: builds before 2.3 do not work with NumPy 2. Or NumPy is missing.",
        "python -m pip install 'numpy<2'  # or a newer torch",
        refuted_by='python -c "import torch; torch.zeros(1).numpy()" works in the same environment.',
    ),
    failure(
        "protobuf_version",
        None,
        "be created directly",
        r"TypeError: Descriptors cannot (?:not )?be created directly",
        "The installed protobuf is too new for a package",
        "A package (tensorboard, onnx, sentencepiece ...) has files that an older protobuf compiler generated, and protobuf 4 "
        "refuses them.",
        "python -m pip install 'protobuf<=3.20.3'  # or a newer version of the package that the traceback names",
        refuted_by="python -m pip show protobuf names 3.20 or older.",
    ),
    failure(
        "operator_missing",
        None,
        "does not exist",
        r"operator (?P<package>torch(?:vision|audio))::(?P<name>\w{1,80}) does not exist",
        "{package} was built for another torch: its operator {name} is missing",
        "The packages are released together: each version of {package} needs the one version of torch that it was built for.",
        "python -m pip list | grep -i '^torch'\n"
        "python -m pip install --force-reinstall torch {package}  # both at once, from one index (--index-url, of your CUDA)",
        refuted_by='python -c "import {package}" works in the same environment.',
    ),
)
