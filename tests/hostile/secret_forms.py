"""Secrets of many forms, as answers, messages and URLs carry them; HIDDEN stands where the secret's own letters do."""

from uuid import uuid4

FORMS = {
    "a bearer token": "Authorization: Bearer HIDDEN",
    "a bearer token in JSON": '{"headers": {"authorization": "Bearer HIDDEN"}}',
    "basic credentials": "authorization=Basic HIDDEN==",
    "another scheme": '"Authorization": "Token HIDDEN"',
    "an OpenAI key": '{"error": {"message": "Incorrect API key provided: sk-proj-HIDDEN. You can find it"}}',
    "an OpenAI key in quotes": "invalid key 'sk-HIDDEN'",
    "an Anthropic key": "x-api-key: sk-ant-api03-HIDDEN",
    "an NVIDIA key": "401 for nvapi-HIDDEN",
    "a Hugging Face token": "Invalid user token hf_HIDDEN",
    "a GitHub token": "remote: ghp_HIDDEN",
    "a fine-grained GitHub token": "remote: github_pat_HIDDEN",
    "a GitLab token": "glpat-HIDDEN is revoked",
    "a Slack token": "xoxp-HIDDEN",
    "a Google key": "key AIzaSyHIDDEN not valid",
    "an AWS key id": "AKIAHIDDEN cannot sign",
    "an AWS secret": "AWS_SECRET_ACCESS_KEY=HIDDEN",
    "an AWS signature": "GET https://bucket/x?X-Amz-Credential=a&X-Amz-Signature=HIDDEN&x=1",
    "an Azure signature": "https://account.blob/x?sv=2024&sig=HIDDEN%3D",
    "a JSON web token": "bad token eyJhbGciOiJIUzI1NiJ9.HIDDEN.HIDDEN",
    "an api key": "api_key=HIDDEN",
    "an api key in JSON": '{"api_key": "HIDDEN"}',
    "an api key within JSON within JSON": '{"detail": "{\\"api_key\\": \\"HIDDEN\\"}"}',
    "an api key of one word": '{"apikey": "HIDDEN"}',
    "an api key of a config": "policy_api_key: HIDDEN",
    "an api key in capitals": "OPENAI_API_KEY=HIDDEN",
    "an api key of Python's": "OpenAI(api_key='HIDDEN', timeout=1)",
    "a field with a key": "x-api-key: HIDDEN",
    "Azure's field": "{'api-key': 'HIDDEN'}",
    "a subscription key": "Ocp-Apim-Subscription-Key: HIDDEN",
    "an access token": "access_token=HIDDEN&expires=1",
    "a refresh token": '{"refresh_token": "HIDDEN"}',
    "a token": '{"token": "HIDDEN"}',
    "a client secret": "client_secret=HIDDEN",
    "a secret": "secret: HIDDEN",
    "a password": "password=HIDDEN",
    "a password in JSON": '{"password": "HIDDEN"}',
    "a short name for one": "PGPASSWORD=HIDDEN psql",
    "a passphrase": "passphrase: HIDDEN",
    "a password with odd letters": 'password="HIDDEN$#!x"',
    "credentials in a URL": "cannot connect to postgresql://user:HIDDEN@db:5432/x",
    "a token in a URL": "GET https://HIDDEN@github.com/x.git",
    "a key in a query": "GET http://model/v1?key=HIDDEN&x=1",
    "a cookie": "Cookie: sid=HIDDEN; other=HIDDEN",
    "a cookie that is set": "Set-Cookie: session=HIDDEN; Path=/",
    "a cookie in JSON": '{"cookie": "sid=HIDDEN"}',
    "a private key": "-----BEGIN RSA PRIVATE KEY-----\nHIDDEN\nHIDDEN\n-----END RSA PRIVATE KEY-----",
    "half a private key": "-----BEGIN PRIVATE KEY-----\nHIDDEN",
}


def secret() -> str:
    """Letters that stand nowhere else, as long as keys are."""
    return f"S3cr3t{uuid4().hex}"
