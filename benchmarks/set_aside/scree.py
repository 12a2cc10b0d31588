"""Programs of students, researchers and small teams, as they are asked about in forums.

Their author knew only the ids and titles of the rules.
"""

from __future__ import annotations

from functools import partial

from accuracy.cases import Case
from accuracy.programs import Program, with_python, with_torchrun

_case = partial(Case, half="set aside")

PROGRAMS: tuple[Program, ...] = (
    # Decompressing and augmenting 640x480 photos takes place in __getitem__ with num_workers=0: about 1.0-1.5 s of loading
    # for each batch of 32, and 0.1 s or less for the step. From outside: py-spy finds the main thread in
    # __getitem__/rotate/color_jitter nearly always; about 65 img/s; ps shows one process without workers.
    Program(_case("pet-breeds", ("D01",)), with_python("pet_breeds")),
    # Lightning module (moved from training_epoch_end to on_train_epoch_end) never clears training_step_outputs, so
    # predictions, targets and inputs of every step stay in memory: about 0.7 MB per step, 3-7 MB/s. From outside: the RSS in
    # ps or /proc grows steadily over epochs. It learns well.
    Program(_case("ett-forecast", ("H06",), acceptable=("H05", "E10")), with_python("ett_forecast")),
    # CTC: of a few fast speakers the output of the stride-4 front end is shorter than the label, the loss of that utterance
    # is infinite (zero_infinity is off), its gradient NaN; from about iteration 20-30 of the first epoch all losses are nan.
    # Visible in the printed output.
    Program(_case("yes-no-asr", ("J01", "nan_loss"), acceptable=("J03",)), with_python("yes_no_asr")),
    # The Dice loss thresholds the prediction, which cuts the graph; 'loss.requires_grad = True' hides the error. No parameter
    # gets a gradient, the weights never change: train 0.914, val dice 0.088 in every epoch. Visible in the printed loss,
    # which stays.
    Program(_case("polyp-unet", ("J03", "no_grad")), with_python("polyp_unet")),
    # Predictions (256, 1) against targets (256): MSELoss broadcasts to (256, 256), so the model learns only the mean: mse
    # about 1, valid r2 about 0. torch prints a UserWarning about the target size; the printed losses show the rest.
    Program(_case("ames-housing", ("target_size",), acceptable=("J03",)), with_python("ames_housing")),
    # Trains for 400 iterations (about 15-40 s), then torch.load refuses its own checkpoint, which contains the
    # argparse.Namespace (weights_only is True since torch 2.6). UnpicklingError in the printed output, exit code 1.
    Program(
        _case("nano-shakespeare", ("weights_only",), acceptable=("exception",)), with_python("nano_shakespeare"), onset="end"
    ),
    # test() calls model.eval(), is called before the training and after every epoch, and train() never calls model.train():
    # dropout and BatchNorm's statistics are off in the whole training. Nothing of it shows in ps, top or py-spy, and the
    # printed numbers look fine; only the source or the modules' state shows it.
    Program(_case("mutag-gin", ("J07", "all_in_eval"), acceptable=("J05",), outside_trace=False), with_python("mutag_gin")),
    # Each PostDataset builds its own vocabulary in the order of first appearance, so validation posts have other ids than
    # training posts: train_acc passes 0.85 while val_acc stays at chance (0.33) and val_loss grows past 2. Visible in the
    # printed output.
    Program(_case("tweet-sentiment", ("J05",)), with_python("tweet_sentiment")),
    # No DistributedSampler: each rank reads all 114,000 ratings (445 batches of 256 on each of 2 ranks), and with the same
    # seed even in the same order: both ranks print the same losses. Visible in the printed output: batches per rank times
    # world size is twice the data, and the equal losses.
    Program(_case("movielens-ncf", ("C05",)), with_torchrun("movielens_ncf"), 2),
    # After --aux-epochs (3 epochs, about 15-25 s) the loss no longer uses the auxiliary head, and DDP without
    # find_unused_parameters raises 'Expected to have finished reduction in the prior iteration' in the second iteration of
    # that epoch. Visible in the printed output.
    Program(
        _case("cityscapes-aux", ("C09", "unused_params", "unused_idx"), acceptable=("G04", "child_failed", "elastic_exit")),
        with_torchrun("cityscapes_aux"),
        2,
        onset="end",
    ),
    # After the first epoch rank 0 alone validates with the DDP-wrapped model, whose forward broadcasts the BatchNorm buffers,
    # while rank 1 waits in dist.barrier(): both wait for ever. From outside: output stops at '=> validating after epoch 0',
    # both ranks sleep without CPU time; py-spy shows rank 0 in _sync_buffers (validate) and rank 1 in barrier.
    Program(
        _case("tiny-imagenet-ddp", ("C08", "coll_mismatch"), acceptable=("G01",)),
        with_torchrun("tiny_imagenet_ddp"),
        2,
        onset="last line",
    ),
    # Saves net.state_dict() of the DDP wrapper; after the training (8 epochs, 20-40 s) a plain UNet loads it: missing and
    # unexpected keys with 'module.'. Visible in the printed output, exit code 1.
    Program(
        _case("ddpm-sprites", ("module_prefix", "C13"), acceptable=("state_dict_names", "G04", "child_failed", "elastic_exit")),
        with_torchrun("ddpm_sprites"),
        2,
        onset="end",
    ),
    # Healthy: PPO with wind; the return climbs from 30 to about 480 and then wanders between 440 and 500, the losses of
    # policy and value are noisy, many small calls for the environments.
    Program(_case("healthy-pole-cart-ppo"), with_python("pole_cart_ppo")),
    # Healthy: DCGAN with unequal rates; Loss_D goes to about 1.4, Loss_G about 0.9, neither falls, as it should be.
    Program(_case("healthy-anime-dcgan"), with_python("anime_dcgan")),
    # Healthy: SimCLR with all_gather in the graph; warm-up from a rate of 1e-5; the loss begins at chance (5.5) and stays
    # above 3; rank 0 makes a short probe (well below a second) every 4 epochs.
    Program(_case("healthy-stl-contrastive"), with_torchrun("stl_contrastive"), 2),
    # Healthy: Transformers Trainer, small GPT-2 from scratch, 400 steps of warm-up, evaluation of about 0.3-0.5 s every 150
    # steps.
    Program(_case("healthy-gpt2-from-scratch-hf"), with_python("gpt2_from_scratch_hf")),
    # Healthy: DDP with batches bucketed by length: shapes, losses and step times change from step to step, but both ranks get
    # the same bucket in a step; Noam warm-up, the loss stays near chance for some 200 steps and then falls.
    Program(_case("healthy-wmt-toy-ddp"), with_torchrun("wmt_toy_ddp"), 2),
    # Healthy: extracts all features once (8-15 s, with progress), then trains from memory; mixup makes the loss jump, one-
    # cycle warm-up; memory grows during the extraction only.
    Program(_case("healthy-urban-sounds"), with_python("urban_sounds")),
)
