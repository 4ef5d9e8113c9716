#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tokenizer.py -- small tokenizers and what the Hugging Face library makes of nasty texts, for tests/tokenizer_test.c.

    python3 tools/golden/tokenizer.py tests/data/tokenizer [NAME..]       # needs the package `tokenizers`

neox.json   like GPT-NeoX: NFC, specials in the raw text, runs of spaces as added tokens, merges as pairs
gpt2.json   like GPT-2: no normalizer, a space put before every text, merges as strings
llama3.json like Llama 3: Split by a pattern, then ByteLevel; ignore_merges, a template that puts a token before a text
qwen2.json  like Qwen 2: NFC, single digits, Split said the other way round (Removed, inverted)
*_ids.json  {"made with": .., "cases": [{"text": .., "ids": [..]}, ..]}; texts with bad bytes have "hex" instead"""
import json
import os
import sys
import unicodedata

import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

# Written for this purpose: enough repetition for merges to form, in several scripts.
TEXT = [
    "The engine reads a batch of tokens, runs the layers forward, and then it runs them backward. The engine's state "
    "isn't large: it's the weights, the moments and a few counters. They're kept in one arena, and they've been there "
    "since the first step. We'll see that the loss goes down; I'd bet on it, and I'm sure you're going to agree.",
    "Every step takes 1024 tokens, 2048 tokens or 4096 tokens, in 12 or 24 layers, at 3.14 or 2.718 or 0.001. In 1999 "
    "there were 365 days, in 2000 there were 366 days.",
    "for (int i = 0; i < n; i++) {\n    if (x[i] > 0) {\n        sum += x[i];\n    }\n}\n\treturn sum;\n",
    "Ein schöner Tag über den Dächern; größer, kälter, süßer. Où est le garçon? L'été à la française, déjà vu. "
    "El niño pequeño comió piñas. Træet på øen. Zażółć gęślą jaźń. Příliš žluťoučký kůň.",
    "Быстрая лисица прыгает через ленивую собаку. Все счастливые семьи похожи друг на друга.",
    "Η γρήγορη αλεπού πηδά πάνω από το σκυλί. Ένα δύο τρία τέσσερα.",
    "中文的句子没有空格。机器学习模型需要很多数据。日本語の文章もここにあります。カタカナとひらがな。",
    "한국어 문장도 있습니다. 기계 학습은 재미있습니다.",
    "यह एक हिन्दी वाक्य है। नमस्ते दुनिया। هذه جملة عربية. שלום עולם. สวัสดีชาวโลก",
    "Emoji: 😀 😃 👍🏽 👩‍👩‍👧 🇩🇪 ❤️ and symbols: → ← ≤ ≥ ∑ √ € £ ½ ² ™",
]

CASES = [
    "", " ", "  ", "   ", "a", " a", "  a", "   a", "a ", "a  ", "a   ", "\n", "\n\n", "\n a", "\t\ta", " \t a",
    "a\tb", "a\r\nb\r\n\r\nc", "  \n  ", "x\n\n\n  y", "Hello world", "Hello, world!",
    "The engine isn't what they're after; I'll say it's we've.", "'s 't 're 've 'm 'll 'd", "'S 'T 'RE don'T",
    "it''s 'tis ''", "don\u2019t can\u2019t", "3.14159 and 2,718 or 1e-5", "12345678901234567890", "x1y22z333",
    "\u00bd \u00b2 \u2167 \u0663\u0664 \u4e09", "for (int i = 0; i < n; i++) {\n        sum += x[i];\n}\n",
    "spaces" + " " * 24 + "end", "spaces" + " " * 25 + "end", "spaces" + " " * 26 + "end", " " * 23, " " * 24,
    " " * 25, " " * 49 + "x", "a" + " " * 7 + "\n" + " " * 3 + "b", "<|endoftext|>", "one<|endoftext|>two",
    " <|endoftext|> ", "<|endoftext|><|endoftext|>", "<|endoftext|", "<|padding|>x<|end<|endoftext|>",
    "a  <|endoftext|>  b", "na\u00efve caf\u00e9", "nai\u0308ve cafe\u0301",
    "e\u0301\u0323 a\u0302\u0323 a\u0323\u0302", "\u1112\u1161\u11ab\u1100\u1173\u11af", "\ud558\u11ab",
    "\u212b \u2126 \u212a", "\u0958\u0915\u093c", "\u0301 lone mark", "q\u0307\u0323",
    "\u0390 \u1fd3 \u03b9\u0308\u0301", "\u304b\u3099\u30cf\u309a", "Gru\u0308\u00dfe aus Mu\u0308nchen",
    "Zażółć gęślą jaźń", "Быстрая лисица, и\u0306", "Η γρήγορη αλεπού", "中文的句子没有空格。", "日本語の文章、カタカナ", "한국어 문장",
    "यह एक हिन्दी वाक्य है।", "هذه جملة عربية", "שָׁלוֹם עולם", "สวัสดีชาวโลก", "😀😃 👍🏽 👩‍👩‍👧 🇩🇪 ❤️", "a😀b 1😀2 !😀!",
    "→←≤≥ ∑√ €£", "a\u00a0b\u3000c\u2003d\u2028e\u0085f", "\u00a0\u00a0x", " \u00a0 x", "\u200b\u200dx\ufeff",
    "\x00\x01\x1c\x1d\x1fx\x7f", "\u0600\u061c\u2066x", "under_score snake_case __init__",
    "http://example.org/a?b=c&d=%20#e", "ALLCAPS MixedCase lower", "...!!!???---***", "!'s !!'ll x's",
    "\U0001d400\U0001d7d8 \U00020000\U0002f800", "\uf900\ufa0e", "\ufffd \ufffe \U0010ffff",
    "a\u0338=\u0338<\u0338", "a" * 300, "ab" * 200 + "!" * 100, "\u00e9" * 50 + "\u0301" * 40,
    "lorem ipsum dolor sit amet, " * 5, "tab\tnew\nline\x0bvt\x0cff",
]

BAD = [
    b"\xff", b"abc\xffdef", b"\xc3", b"caf\xc3 x", b"\xe2\x82", b"\xed\xa0\x80", b"\xf4\x90\x80\x80",
    b"\x80\x80 \xc0\xaf", b"ok \xf0\x9f\x98 ok", b"<|endof\xfftext|>",
]


# The patterns of Llama 3 (and GPT-4) and of Qwen 2, and what tells them from GPT-2's.
PATTERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
           r"\s+(?!\S)|\s+")
PATTERN_CASES = [
    "1234567 12 1 1234", "a1234b", "\u0663\u0664\u0665\u0666", "I'LL don'T WE'RE you'Ve I'M he'D it'S it'\u017f",
    "'\u017fx 'lL 'L",
    "!hello !!hello \thello \u00a0hello", "x.\n\ny!\r\n\r\n z", "  \n  \n  x", "x\n   ", "x   \n", "\r\r\n\n", " \n",
    "\n \n ",
    "...\n...\r\n", "a\u3000\nb", "(\n)", "\n\n\n\tint x;\n", "\u2028\u2029\n\x0b\x0c x", "$100,000.00\n",
    "\u00bd\u00bc\u2167",
]


def train_split(llama):
    t = Tokenizer(models.BPE(ignore_merges=llama))
    pattern = Regex(PATTERN if llama else PATTERN.replace("{1,3}", ""))
    split = pre_tokenizers.Split(pattern, *(("isolated", False) if llama else ("removed", True)))
    if not llama:
        t.normalizer = normalizers.NFC()
    t.pre_tokenizer = pre_tokenizers.Sequence([split,
                                               pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator(TEXT * 3, trainers.BpeTrainer(
        vocab_size=600, min_frequency=2, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    names = ["<|begin_of_text|>", "<|end_of_text|>"] if llama else ["<|endoftext|>", "<|im_start|>"]
    t.add_special_tokens([AddedToken(n, normalized=False, special=True) for n in names])
    if not llama:
        return t
    t.post_processor = processors.TemplateProcessing(
        single="<|begin_of_text|> $A", special_tokens=[("<|begin_of_text|>", t.token_to_id("<|begin_of_text|>"))])
    root = json.loads(t.to_str())  # a word no merge makes, and one that other merges would make: ignore_merges decides
    merges = root["model"]["merges"]
    drop = next(m for m in merges if len("".join(m)) > 3)
    root["model"]["merges"] = [m for m in merges if m != drop]
    return Tokenizer.from_str(json.dumps(root))


def train(neox):
    t = Tokenizer(models.BPE())
    if neox:
        t.normalizer = normalizers.NFC()
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=not neox)
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator(TEXT * 3, trainers.BpeTrainer(
        vocab_size=700 if neox else 400, min_frequency=2, show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=["<|endoftext|>", "<|padding|>"] if neox else ["<|endoftext|>"]))
    if neox:
        t.add_tokens([AddedToken(" " * n, normalized=True) for n in range(24, 1, -1)])
        t.add_tokens([AddedToken("cafe\u0301", normalized=True)])       # itself normalised before it is looked for
    return t


def save(t, path, strings):
    """As compact as JSON can be; merges as the two kinds of files have them."""
    root = json.loads(t.to_str())
    merges = root["model"]["merges"]
    assert merges and all(isinstance(m, list) for m in merges)
    if strings:
        root["model"]["merges"] = [" ".join(m) for m in merges]
    with open(path, "w", encoding="utf-8") as f:
        json.dump(root, f, ensure_ascii=False, separators=(",", ":"))
        f.write("\n")


def row(t, neox, text, key, value):
    """NUL travels as hex: our JSON reader refuses it inside text."""
    ids = t.encode(text, add_special_tokens=False).ids
    decoded = unicodedata.normalize("NFC", text) if neox else t.decode(ids, skip_special_tokens=False)
    if "\x00" in text:
        return {"hex": text.encode().hex(), "ids": ids, "decoded_hex": decoded.encode().hex()}
    return {key: value, "ids": ids, "decoded": decoded}


def cases(t, neox, more):
    for text in CASES + more:
        yield row(t, neox, text, "text", text)
    for raw in BAD:
        yield row(t, neox, raw.decode("utf-8", errors="replace"), "hex", raw.hex())


def main(folder, names):
    os.makedirs(folder, exist_ok=True)
    for name in names or ("neox", "gpt2", "llama3", "qwen2"):
        path, split = os.path.join(folder, name + ".json"), name in ("llama3", "qwen2")
        save(train_split(name == "llama3") if split else train(name == "neox"), path, name == "gpt2")
        t = Tokenizer.from_file(path)
        with open(os.path.join(folder, name + "_ids.json"), "w", encoding="utf-8") as f:
            f.write(f'{{"made with":"tokenizers {tokenizers.__version__}","vocab":{t.get_vocab_size()},"cases":[\n')
            f.write(",\n".join(json.dumps(r, separators=(",", ":")) for r in cases(t, name in ("neox", "qwen2"),
                                                                                   PATTERN_CASES if split else []))
                                                                                   + "\n]}\n")


main(sys.argv[1], sys.argv[2:])
