"""Whether a model call was refused because what was sent is too long for the model.

Matched narrowly, in the servers' own words, with their numbers where they give some. Only what the server says is
read (the message, code and type of its error), never what it echoes of the request: an error of FastAPI repeats the
input, a parser what it could not parse, and a conversation may talk of context lengths. A request for more output
than the model could ever give is a bad parameter, and a limit of tokens in a minute is a rate limit: both are failures.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from .excerpt import unwrap
from .json_text import read_json

LONGEST = 65536
"""Characters of an error's text that are read; the refusals known are below 1,000."""

_STATUSES = frozenset({400, 413, 422})
_N = r"\(?[ ~`']{0,2}[\d,_.]+"

_WORDS = re.compile(
    "|".join(
        (
            # OpenAI, Azure, vLLM up to 0.10, TensorRT-LLM's and others' copies
            rf"maximum context length (?:is|of) {_N}",
            r"\Amaximum context length(?: (?:was |is )?exceeded)?\W*\Z",
            r"\bcontext_length_exceeded\b",
            r"\binput exceeds the context window of this model",
            rf"\binput tokens exceed the configured limit of {_N} tokens",
            r"\binvalid '(?:messages|input|prompt)\b[^']{0,80}': string too long",
            # vLLM: sampling_params, renderers, the engine; a default of max_tokens that has become negative
            rf"context length is only {_N} tokens",
            rf"\bprompt \((?:total )?length {_N}\) is longer than the maximum (?:model|encoder input) length",
            rf"\binput prompt \({_N} tokens\) is too long and exceeds (?:the )?limit",
            rf"\binput length {_N}(?: tokens)?\)? exceeds (?:the )?model'?s? maximum (?:context )?length",
            r"\bmax_(?:completion_)?tokens must be at least 1, got -(?:[2-9]|\d\d)",
            # SGLang
            rf"\binput \({_N} tokens\) is longer than the model'?s context length",
            r"\brequested token count exceeds the model'?s maximum context length",
            rf"\binput length {_N} tokens\)? exceeds the maximum allowed length",
            # TensorRT-LLM, its Triton backend
            rf"\bprompt length {_N}\)?[^\n]{{0,120}} should not exceed max_(?:num_tokens|seq_len|input_len)",
            rf"\bprompt length {_N}\) exceeds maximum (?:input|sequence) length",
            r"\bdefault_max_tokens \(-?\d+\) (?:must|should) be greater than 0",
            # text-generation-inference, llama.cpp
            r"`?inputs`? tokens \+ `?max_new_tokens`? must be <= \d+",
            r"`?inputs`? must have less than \d+ tokens",
            r"\brequest (?:\(\d+ tokens\) )?exceeds the available context size",
            # Anthropic, Bedrock
            rf"\bprompt is too long: {_N} tokens > {_N}",
            r"\Aprompt is too long\W*\Z",
            rf"\binput length and `?max_tokens`? exceed context limit: {_N}",
            r"\bexceeds? the maximum (?:size|allowed number of bytes)\b",
            r"\binput is too long for requested model",
            # Gemini
            r"\binput token count(?: \(\d+\))? exceeds the maximum number of tokens allowed",
            rf"\binput token count is {_N} but (?:the )?model only supports up to {_N}",
            # xAI, Mistral, Moonshot, Cohere
            rf"\bmaximum prompt length is {_N} but the request contains {_N}",
            rf"\btoo large for model with {_N} maximum context length",
            rf"\bexceeded model token limit: {_N}",
            rf"\btoo many tokens: total number of tokens in the prompt cannot exceed {_N}",
            # litellm, LangChain and others, in the place of the provider's
            r"\bContextWindowExceededError\b",
            r"\bplease reduce the length of the (?:input )?(?:messages|prompt)\b",
        )
    ),
    re.IGNORECASE,
)
_BYTES = re.compile(r"exceeds? the maximum (?:size|allowed number of bytes)", re.IGNORECASE)
_RATE = re.compile(
    r"\brate[ _-]?limit|tokens[ _-]per[ _-](?:min|hour|day|sec)|\b[TR]P[MD]\b|too many requests|\bquota\b",
    re.IGNORECASE,
)
_ECHO = re.compile(
    r"\b(?:could not|cannot|failed to|unable to) (?:parse|decode)\b|\b(?:in|not )valid json\b", re.IGNORECASE
)
_CONTEXT = re.compile(rf"context length (?:is|of) (?:only )?(?P<most>{_N})", re.IGNORECASE)
_OUTPUT = re.compile(
    r"(?P<a>[\d,_]+) (?:tokens )?(?:in|for|of) (?:the |your )?(?:completion|output)\b|(?P<b>[\d,_]+) 'max_tokens'"
    r"|is too large: (?P<c>[\d,_]+)|requested (?P<d>[\d,_]+) output tokens",
    re.IGNORECASE,
)
_CLIENT_ERROR = re.compile(r"\bError code: 4(?:00|13|22)\b|\bContextWindowExceededError\b")
_HOP = "Hit an exception in "


def refused_for_length(status: int, text: str) -> bool:
    """Whether a failed answer says that the input was too long. `text` is its whole body, not unwrapped, not cut.

    A 500 is one only where a hop of Gym's has wrapped a refusal in it (nemo_gym.server_utils, 0.4.0 to 0.7.0): the
    answer of an inner server, or the text of an exception that names the status.
    """
    if len(text) > LONGEST or not (status == 500 or status in _STATUSES):
        return False
    inner = unwrap(text)
    return (status != 500 or _is_wrapping(text, inner)) and _refused(inner)


def _is_wrapping(text: str, inner: str) -> bool:
    return inner != text and (_HOP in text or _CLIENT_ERROR.search(inner) is not None)


def _refused(text: str) -> bool:
    said = list(_said(text))
    whole = "\n".join(said)
    if _RATE.search(whole) or _ECHO.search(whole) or not any(_WORDS.search(part) for part in said):
        return False
    if _BYTES.search(whole) and "request_too_large" not in said:
        return False
    return not _output_alone_too_long(whole)


def _said(text: str) -> Iterator[str]:
    """What the server says in an error body of its own; the text itself where it is not JSON."""
    read = read_json(text.encode("utf-8", "replace"))
    if read.state == "whole":
        yield from _said_in(read.value, 0)
    else:
        yield text


def _said_in(value: Any, depth: int) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list) and depth < 6:
        for item in value:
            yield from _said_in(item, depth + 1)
    elif isinstance(value, Mapping) and depth < 6:
        for key in ("error", "errors", "message", "msg", "detail", "code", "type", "metadata", "raw"):
            yield from _said_in(value.get(key), depth + 1)


def _output_alone_too_long(text: str) -> bool:
    """Whether the output asked for would not fit even behind an empty input: a bad parameter."""
    most = _CONTEXT.search(text)
    output = _OUTPUT.search(text)
    if most is None or output is None:
        return False
    return _number(output[output.lastgroup or 0]) >= _number(most["most"])


def _number(text: str) -> int:
    return int(re.sub(r"\D", "", text.partition(".")[0]) or 0)
