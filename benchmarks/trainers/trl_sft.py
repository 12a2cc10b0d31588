"""Supervised fine-tuning by TRL with LoRA of PEFT, losses normalized by tokens.

Needs: trl, peft, datasets
Loss: sum
Ranks: 1, 2
"""

import os

import record  # noqa: F401
from datasets import Dataset
from peft import LoraConfig
from transformers import LlamaConfig, LlamaForCausalLM
from trl import SFTConfig, SFTTrainer
from words import texts, tokenizer

net = LlamaForCausalLM(
    LlamaConfig(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=64,
        pad_token_id=0,
        eos_token_id=2,
    )
)
settings = SFTConfig(
    os.environ["WORK"],
    num_train_epochs=2,
    per_device_train_batch_size=4,
    gradient_accumulation_steps=3,
    logging_steps=1,
    report_to=[],
    use_cpu=True,
    max_length=32,
    save_strategy="no",
    bf16=False,
)
SFTTrainer(
    net,
    args=settings,
    train_dataset=Dataset.from_dict({"text": texts(80, 30)}),
    processing_class=tokenizer(),
    peft_config=LoraConfig(r=4, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM"),
).train()
