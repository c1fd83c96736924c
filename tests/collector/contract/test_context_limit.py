"""`refused_for_length`: refusals in the servers' own words, and what only looks like one."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rollcall_collector.contract.context_limit import refused_for_length

OPENAI = (
    "This model's maximum context length is 8192 tokens. However, your messages resulted in 8545 tokens. "
    "Please reduce the length of the messages."
)


def error(message: str, **more: object) -> str:
    """An error body in OpenAI's form."""
    return json.dumps({"error": {"message": message, "type": "invalid_request_error"} | more})


REFUSED = {
    "openai": error(OPENAI, code="context_length_exceeded"),
    "openai, its code alone": error("Too long.", code="context_length_exceeded"),
    "openai, responses": error("Your input exceeds the context window of this model. Please adjust your input."),
    "openai, gpt-5": error("Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 3e5."),
    "openai, one text": error(
        "Invalid 'messages[1].content': string too long. Expected a string with maximum length 1048576."
    ),
    "azure": json.dumps({"error": {"code": "context_length_exceeded", "message": OPENAI, "param": "messages"}}),
    "vllm 0.6, flat": json.dumps(
        {
            "object": "error",
            "message": "This model's maximum context length is 32768 tokens. However, you requested 32818 tokens in "
            "the messages, Please reduce the length of the messages. None",
            "type": "BadRequestError",
            "code": 400,
        }
    ),
    "vllm, both": error(
        "This model's maximum context length is 16384 tokens. However, you requested 19591 tokens (9591 in the "
        "messages, 10000 in the completion). Please reduce the length of the messages or completion. None"
    ),
    "vllm 0.8, no room for the output": error(
        "'max_tokens' or 'max_completion_tokens' is too large: 2000. This model's maximum context length is 4096 "
        "tokens and your request has 2104 input tokens (2000 > 4096 - 2104). None"
    ),
    "vllm 0.15": error(
        "This model's maximum context length is 2048 tokens. However, your request has 8 input tokens plus 2045 "
        "'max_tokens'. Please reduce one or the other. (parameter=input_tokens, max_tokens, value=(8, 2045))"
    ),
    "vllm 0.15, input": error(
        "You passed 40001 input tokens and requested 0 output tokens. However, the model's context length is only "
        "40000 tokens, resulting in a maximum input length of 40000 tokens."
    ),
    "vllm, engine": error("The decoder prompt (length 10127) is longer than the maximum model length of 8192."),
    "vllm, nothing left": error("max_tokens must be at least 1, got -51."),
    "sglang": json.dumps(
        {"message": "The input (61709 tokens) is longer than the model's context length (40960 tokens).", "code": 400}
    ),
    "sglang, total": error(
        "Requested token count exceeds the model's maximum context length of 32768 tokens. You requested a total of "
        "40000 tokens: 8000 tokens from the input messages and 32000 tokens for the completion."
    ),
    "sglang, allowed": error("Input length (9000 tokens) exceeds the maximum allowed length (8192 tokens)."),
    "trt-llm": error("The sum of prompt length (9351.0), query length (0) should not exceed max_num_tokens (8192)"),
    "trt-llm, default": error("default_max_tokens (-12) must be greater than 0, max_seq_len (8) - prompt_len (20)"),
    "triton": "Cannot process new request: Prompt length (5056) exceeds maximum sequence length (2048)",
    "anthropic": json.dumps(
        {"type": "error", "error": {"type": "x", "message": "prompt is too long: 208310 tokens > 200000 maximum"}}
    ),
    "anthropic, with output": error(
        "input length and `max_tokens` exceed context limit: 199759 + 21333 > 200000, decrease input length"
    ),
    "bedrock": json.dumps({"message": "Input is too long for requested model."}),
    "gemini": json.dumps(
        [
            {
                "error": {
                    "code": 400,
                    "message": "The input token count (1200000) exceeds the maximum number of tokens allowed (99).",
                }
            }
        ]
    ),
    "vertex": error(
        "Unable to submit request because the input token count is 40000 but model only supports up to 32768."
    ),
    "llama.cpp": error("the request exceeds the available context size, try increasing it"),
    "tgi": json.dumps(
        {"error": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 2048. Given: 3000"}
    ),
    "gym, passed on": '{"error":{"message":"maximum context length","code":400}}',
    "litellm": error(f"litellm.ContextWindowExceededError: OpenAIException - {OPENAI}"),
    "plain text": "maximum context length is 32768",
    "detail": json.dumps({"detail": OPENAI}),
}

NOT_REFUSED = {
    "output too large": error(
        "max_tokens is too large: 100000. This model supports at most 16384 completion tokens, whereas you gave 100000."
    ),
    "output alone beyond the context": error(
        "'max_tokens' or 'max_completion_tokens' is too large: 200000. This model's maximum context length is 4096 "
        "tokens and your request has 4 input tokens (200000 > 4096 - 4). None"
    ),
    "completion alone beyond the context": error(
        "This model's maximum context length is 4096 tokens. However, you requested 8200 tokens (8 in the messages, "
        "8192 in the completion). Please reduce the length of the messages or completion."
    ),
    "bad parameter": error("max_tokens must be at least 1, got 0."),
    "bad parameter, -1": error("max_tokens must be at least 1, got -1."),
    "unsupported parameter": error("Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."),
    "wrong type": error("Invalid type for 'max_tokens': expected an integer, but got a string instead."),
    "tokens a minute": error(
        "Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 40000. Please reduce the length "
        "of the messages.",
        code="rate_limit_exceeded",
    ),
    "rate limit": error("Rate limit reached: this model's maximum context length is 8192 tokens."),
    "quota": error("You exceeded your current quota: input token count exceeds the maximum number of tokens allowed."),
    "file": error("The file is too large. The maximum size is 512 MB."),
    "image": error("messages.0.content.1.image.source: image exceeds the maximum size of 5 MB"),
    "nginx": "<html><head><title>413 Request Entity Too Large</title></head></html>",
    "long user": error("Invalid 'user': string too long. Expected a string with maximum length 64."),
    "unknown model": error("The model `gpt-9` does not exist or you do not have access to it."),
    "echoed input": json.dumps(
        {"detail": [{"type": "missing", "msg": "Field required", "input": {"messages": [{"content": OPENAI}]}}]}
    ),
    "echoed text": error(f"Could not parse the arguments of the tool call: {{'question': \"{OPENAI}\"}}"),
    "a model's text": json.dumps({"output": [{"content": [{"text": OPENAI}]}], "error": None}),
    "a chat about it": error("Content filtered: the user asks what a context length is, and if a prompt is too long."),
    "template": error("Conversation roles must alternate user/assistant"),
    "empty": "",
    "far too long to read": error(OPENAI + "x" * 70_000),
}


def wrapped(text: str, hops: int = 1) -> str:
    """The body of a 500 as Gym's hops write it around the answer of an inner server."""
    for hop in range(hops):
        text = json.dumps(f"Hit an exception in server_{hop} calling an inner server: {text.encode()!r}")
    return text


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED)
@pytest.mark.parametrize("status", [400, 413, 422])
def test_a_refusal_for_length_is_known(text: str, status: int) -> None:
    """In the words of each server."""
    assert refused_for_length(status, text)


@pytest.mark.parametrize("text", NOT_REFUSED.values(), ids=NOT_REFUSED)
@pytest.mark.parametrize("status", [400, 413, 422])
def test_other_refusals_are_not_taken_for_one(text: str, status: int) -> None:
    """Bad parameters, rates, sizes of files, and what was only quoted."""
    assert not refused_for_length(status, text)


@pytest.mark.parametrize("status", [200, 401, 404, 429, 500, 502, 503])
def test_under_another_status_it_is_none(status: int) -> None:
    """A 500 with the bare text is a failure of the server's."""
    assert not refused_for_length(status, REFUSED["openai"])


def test_the_bytes_of_a_request_count_where_anthropic_says_so() -> None:
    """Its 413 has a type of its own."""
    too_many = {"type": "request_too_large", "message": "Request exceeds the maximum allowed number of bytes."}
    assert refused_for_length(413, json.dumps({"type": "error", "error": too_many}))
    assert not refused_for_length(413, json.dumps({"error": too_many | {"type": "invalid_request_error"}}))


@pytest.mark.parametrize("hops", [1, 2, 3])
def test_a_500_that_wraps_a_refusal_is_one(hops: int) -> None:
    """Gym answers 500 for any inner failure, with the inner text escaped once a hop."""
    assert all(refused_for_length(500, wrapped(text, hops)) for text in REFUSED.values())
    assert not any(refused_for_length(500, wrapped(text, hops)) for text in NOT_REFUSED.values())
    assert not refused_for_length(502, wrapped(REFUSED["openai"], hops))


@pytest.mark.parametrize(
    ("said", "refused"),
    [
        (f"BadRequestError(\"Error code: 400 - {{'message': '{OPENAI}'}}\")", True),
        (f"InternalServerError(\"Error code: 500 - {{'message': '{OPENAI}'}}\")", False),
        (f'RuntimeError("{OPENAI}")', False),
    ],
)
def test_an_exceptions_text_in_a_500_must_name_the_status(said: str, refused: bool) -> None:
    """Gym's servers answer with the exception's text as a JSON string."""
    assert refused_for_length(500, json.dumps(said)) is refused


@given(
    st.sampled_from([400, 500]), st.text(max_size=60) | st.sampled_from([*REFUSED.values(), wrapped(OPENAI)]), st.data()
)
def test_no_text_raises(status: int, text: str, data: st.DataObject) -> None:
    """Whatever it is, and wherever it was cut."""
    assert refused_for_length(status, text[: data.draw(st.integers(0, len(text)))]) in (True, False)
