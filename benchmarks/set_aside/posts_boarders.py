"""Logs of well-known trainers in their own formats, none with an error.

Its author knew only the ids and titles of the rules.
"""

from __future__ import annotations

from functools import partial

from accuracy.cases import Case

_case = partial(Case, half="set aside")

KIND = "as posted"
LOGS: tuple[Case, ...] = (
    # Fine-tuning with a learning rate of 0.0 in every line: loss at ln 4, the same eval_loss and accuracy (chance) after each
    # epoch.
    _case("jurors-and-their-questions-bert", ("J03",)),
    # timm: Data is 95% of Time in every line, 2 workers for each rank on 64 cores, GPUs at idle power.
    _case("jewels-and-brooches-vit", ("D01",), acceptable=("D07",)),
    # mmdetection: training loss falls well, but COCO mAP stays at 0.000 in all four validations.
    _case("junkyard-cars-rtmdet", ("J05",)),
    # detectron2: max_mem grows by about 57 MB in each iteration, from 8G to 76G of 80G, before any error.
    _case("lemurs-in-the-canopy-masks", ("H06", "E04")),
    # YOLOv8 with device=cpu: "CPU (AMD Ryzen ...)", GPU_mem 0G, 45 minutes an epoch, while an RTX 3080 idles.
    _case("ladybirds-on-bean-leaves", ("A12",)),
    # fairseq: every 250 updates (85 s of training) a checkpoint whose writing takes 170 to 210 s; wps falls from 170k to 14k
    # there.
    _case("macedonian-news-into-albanian", ("E07",)),
    # espnet: loss, loss_ctc, loss_att become nan in epoch 3, each update is skipped; [valid] is nan too.
    _case("maori-radio-conformer", ("J01", "nan_loss")),
    # NeMo, 2 x 4 ranks: seven MEMBER lines of 8 (GLOBAL_RANK 5 is missing), then nothing for 80 minutes; that process is in
    # state D on node22.
    _case("luxembourgish-parakeet", ("G03",), acceptable=("G01", "G02", "G06", "K02")),
    # torchtitan: 6,800 tps a GPU on one node, 520 on four over NCCL sockets on eth0; 92% of the step in AllGather and
    # ReduceScatter.
    _case("llama-eight-on-rented-nodes", ("E06",), acceptable=("K08",)),
    # Megatron's straggler report: rank 13 has 92C, clock from 1740 to 855 MHz, power from 371 to 221 W; all iterations take
    # 1.8 times as long.
    _case("medium-gpt-for-the-fjords", ("I01",), acceptable=("F02", "thermal_slowdown", "E10")),
    # DeepSpeed: fwd grows from 4.1 to 16.8 s a step, CurrSamplesPerSec falls from 10.9 to 5.2; backward, step and memory stay
    # the same.
    _case("mistral-for-customs-forms", ("E10",)),
    # nnU-Net: all 12 augmentation workers and the main process have the affinity list 17 (one core); 28 minutes an epoch, GPU
    # at 0%.
    _case("lumbar-discs-fullres", ("D03",), acceptable=("D02", "D01")),
    # SB3 PPO: ep_rew_mean rises to 214, then falls to -331, while approx_kl and clip_fraction grow.
    _case("moon-rover-with-a-critic", ("J06",)),
    # RSL-RL: the value function loss grows from 0.03 to 5.4e9.
    _case("legged-robot-on-rubble", ("J02",), acceptable=("J03", "J06")),
    # torchtune: shuffle: false in the config, file sorted by subject; the loss has the same jumps at the same steps of each
    # epoch.
    _case("law-exam-questions-torchtune", ("J04",)),
    # OpenCLIP on 8 H100: batch_size 4, 280 samples/s in all, 6 of 80 GB used, 160 W, CPU time 3.4 times the CUDA time.
    _case("mineral-thin-sections-clip", ("C12", "E02")),
    # icefall: at each batch all four ranks print the same frames and the same batch size; the epoch has four times the
    # expected batches.
    _case("kyrgyz-zipformer-small", ("C05",)),
    # PyG: METIS parts are balanced by nodes and not by edges: ranks 2, 5 (and 6) compute 0.4 s where others need 0.14 s and
    # wait.
    _case("journal-citations-sage", ("F03",), acceptable=("F02",)),
    # Healthy: Lightning GAN: losses go up and down, one step of a strong discriminator, VGG in eval mode as intended; FID
    # falls.
    _case("kimono-textures-lightning"),
    # Healthy: warmup from 0, new head's warning, one loss spike (2.04, gradient norm 88) which recovers; F1 rises to a plateau.
    _case("letters-to-the-editor-roberta"),
    # Healthy: nan pseudo dice for a class that is absent from the sampled validation patches; first epoch compiles; one
    # slower epoch.
    _case("kidneys-and-cysts-residual"),
    # Healthy: SAC: fps falls when learning starts (after 10,000 steps), the reward is noisy and rises to 3000; actor_loss
    # goes down to -250.
    _case("jumping-hopper-overnight"),
    # Healthy: Megatron in fp16: the loss scale finds its value in the first 20 iterations, a small spike at 260, validation
    # and checkpoint pauses.
    _case("lingala-and-friends-gpt"),
    # Healthy: corrupt JPEG restored, NMS time limit once, a dip of mAP in epoch 4; GPU 1 serves Triton as intended.
    _case("kiwis-on-the-sorting-belt"),
)
