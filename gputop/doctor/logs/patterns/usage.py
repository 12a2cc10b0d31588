"""Texts of a command line or a configuration that is not accepted. Pure.

Sources: argparse.ArgumentParser.error and Modules/main.c of Python; click.exceptions; hydra/_internal/config_loader_impl.py,
hydra/_internal/defaults_list.py and omegaconf's errors; the "not found" of bash, dash and zsh; for switches that are left on,
torch/autograd/anomaly_mode.py and lightning/pytorch/trainer/trainer.py.
"""

from __future__ import annotations

from gputop.doctor.logs.patterns.pattern import Pattern, failure, hint

_HELP = "# correct the command; the script lists its options with --help"

_LAUNCHERS = (
    # accelerate/commands/launch.py, launch_command_parser: the program's name as it gives it to argparse.
    (r"Accelerate launch command", "accelerate launch"),
    (r"(?P<program>torchrun|deepspeed|horovodrun|lightning run model|fabric run)", "{program}"),
)
_OF_LAUNCHERS = (
    (
        "argparse_missing",
        "error: the following arguments are required",
        "the following arguments are required: (?P<arguments>.+)",
        "{launcher} needs {{arguments}}",
    ),
    (
        "argparse_unknown",
        "error: unrecognized arguments",
        "unrecognized arguments: (?P<arguments>.+)",
        "{launcher} does not know {{arguments}}",
    ),
    (
        "argparse_value",
        "error: argument ",
        "argument (?P<argument>[^:]+): (?P<why>.+)",
        "{launcher} refuses {{argument}}: {{why}}",
    ),
)

PATTERNS: tuple[Pattern, ...] = (
    *(
        failure(
            name,
            None,
            key,
            rf"^{expression}: error: {words}",
            title.format(launcher=launcher),
            "The launcher does not accept its own options, and has not started the script.",
            f"{launcher} --help  # its options come before the script, the script's own ones after it:\n"
            f"{launcher} --OPTION VALUE train.py ...",
        )
        for name, key, words, title in _OF_LAUNCHERS
        for expression, launcher in _LAUNCHERS
    ),
    failure(
        "argparse_missing",
        None,
        "error: the following arguments are required",
        r"^(?:\S+: )?(?P<program>[^\s:][^:]{0,80}): error: the following arguments are required: (?P<arguments>.+)",
        "{program} needs {arguments}",
        "The script's command line lacks required arguments: it ended before it began.",
        _HELP,
    ),
    failure(
        "argparse_unknown",
        None,
        "error: unrecognized arguments",
        r"(?P<program>(?<!\S)\S+): error: unrecognized arguments: (?P<arguments>.+)",
        "{program} does not know {arguments}",
        "The script's command line has arguments that it does not know: a typo, an option of another version, or an option "
        "of the launcher, which must come before the script.",
        _HELP,
    ),
    failure(
        "argparse_value",
        None,
        "error: argument ",
        r"(?P<program>(?<!\S)\S+): error: argument (?P<argument>[^:]+): (?P<why>.+)",
        "{program} refuses {argument}: {why}",
        "The script does not accept a value on its command line: it ended before it began.",
        _HELP,
    ),
    failure(
        "click_usage",
        None,
        "Error: ",
        r"^Error: (?P<why>(?:No such (?:option|command)|Missing (?:option|argument|parameter|command)|Invalid value|"
        r"Got unexpected extra argument|Option .* requires|Option .* does not take).*)",
        "The command line is not accepted: {why}",
        "The script does not accept its command line: it ended before it began.",
        _HELP,
    ),
    failure(
        "hydra_override",
        None,
        "Could not override",
        r"Could not override '(?P<name>[^']+)'",
        "The configuration has no key {name}",
        "An override on the command line names a key that the configuration does not have.",
        "# correct the key, or add it: +{name}=VALUE",
    ),
    failure(
        "hydra_mandatory",
        None,
        "Missing mandatory value",
        r"Missing mandatory value: (?P<name>\S+)",
        "The configuration needs a value for {name}",
        "The configuration marks this key as mandatory (???), and nothing sets it.",
        "{name}=VALUE  # on the command line, or in the configuration",
    ),
    *(
        failure(
            "hydra_choice",
            None,
            key,
            expression,
            "Hydra finds no configuration {name}",
            "The defaults list or the command line names a file that the configuration's folders lack: a typo, or a file "
            "that was renamed or not committed.",
            "python train.py --info searchpath  # the folders; the lines below the error list the choices of the group\n"
            "# correct the name, or add the file {name}.yaml to one of the folders",
            refuted_by="One of the folders of the search path contains {name}.yaml.",
        )
        for key, expression in (
            # hydra/_internal/defaults_list.py, since 1.1, and config_loader_impl.py of 1.0.
            ("Could not find '", r"(?:^|MissingConfigException: )In '[^']{1,200}': Could not find '(?P<name>[^']+)'"),
            ("Could not load ", r"MissingConfigException: Could not load '?(?P<name>[\w./@-]*\w)"),
            ("Cannot find primary config ", r"Cannot find primary config '?(?P<name>[\w./@-]*\w)"),
        )
    ),
    failure(
        "hydra_target",
        None,
        "Error locating target",
        # hydra/_internal/instantiate/_instantiate2.py, since 1.2.
        r"(?:^|InstantiationException: )Error locating target '(?P<name>[^']+)'",
        "Hydra finds no {name}",
        "A _target_ in the configuration names a class or function that cannot be imported: it was renamed or moved, its "
        "package is missing, or importing its module fails.",
        "python -c \"from hydra.utils import get_object; get_object('{name}')\"  # in the script's environment and directory\n"
        "HYDRA_FULL_ERROR=1 python ...  # shows the exception of the import",
        refuted_by="The import of that name works in the environment and directory that run the script.",
    ),
    *(
        failure(
            "hydra_call",
            None,
            key,
            expression,
            "Hydra could not create {name}",
            "The class or function that _target_ names was found, but failed when it was called: the next lines say how. "
            "Often the configuration has a key that it does not accept, or lacks one.",
            "HYDRA_FULL_ERROR=1 python ...  # shows the place within {name}",
            refuted_by="The script continues after this line.",
        )
        # Without a traceback: in one the exception before it says more.
        for key, expression in (
            ("Error in call to target", r"^Error in call to target '(?P<name>[^']+)'"),
            ("Error instantiating", r"^Error instantiating '(?P<name>[^']+)'"),
        )
    ),
    failure(
        "syntax",
        None,
        "Error: ",
        r"^(?P<type>SyntaxError|IndentationError|TabError): (?P<why>.+)",
        "The script is not valid Python: {why}",
        "Python read the file but ran none of it. The lines above name the file and the place.",
        "python -m py_compile train.py  # and look at the Python version: newer syntax on an older Python looks the same",
    ),
    failure(
        "script_not_found",
        None,
        "can't open file",
        r"can't open file '?(?P<file>[^':]+)'?: \[Errno (?P<number>\d+)\] (?P<why>.+)",
        "Python cannot open {file}: {why}",
        "The script does not exist where the command looks for it: a typo, or a different working directory.",
        "ls -l {file}; pwd",
    ),
    failure(
        "command_not_found",
        None,
        "not found",
        r"(?:^|\s)(?:\S+: line \d+: |(?:ba|da)?sh: (?:\d+: )?|\S+: \d+: )(?P<command>[\w./-]+): (?:command )?not found\s*$",
        "The shell does not find {command}",
        "The program is not on PATH: the environment that it is installed in is not active in this shell or job.",
        "which {command}  # activate the environment first (conda activate, source .venv/bin/activate, module load)\n"
        "python -m torch.distributed.run ...  # torchrun without its command",
    ),
    failure(
        "command_not_found",
        None,
        "command not found: ",
        r"command not found: (?P<command>\S+)",
        "The shell does not find {command}",
        "The program is not on PATH: the environment that it is installed in is not active in this shell or job.",
        "which {command}  # activate the environment first (conda activate, source .venv/bin/activate, module load)",
    ),
    failure(
        "conda_activate",
        None,
        "to use 'conda activate'",
        # conda/exceptions.py, since 4.6.
        r"Your shell has not been properly configured to use 'conda activate'",
        "conda activate did not work: the environment is not active",
        "A script's shell does not read the file that conda init changed, so everything that follows runs without the "
        "environment.",
        'eval "$(conda shell.bash hook)"; conda activate ENVIRONMENT  # in the script, before the training\n'
        "conda run -n ENVIRONMENT python train.py  # or without activating",
        refuted_by="which python names the environment's Python in the same script.",
    ),
    *(
        hint(
            "anomaly_mode",
            "E05",
            key,
            expression,
            "Left on from debugging: anomaly detection",
            "Anomaly detection helps to find a NaN: it records the stack of every operation and checks every gradient, which "
            "makes each step slower.",
            fix,
        )
        for key, expression, fix in (
            (
                "Anomaly Detection has been enabled",
                r"Anomaly Detection has been enabled\. This mode will increase the runtime",
                "# remove torch.autograd.detect_anomaly(), or call it with False",
            ),
            (
                "turned on `Trainer(detect_anomaly=True)`",
                r"turned on `Trainer\(detect_anomaly=True\)`",
                "Trainer(detect_anomaly=False)",
            ),
        )
    ),
)
