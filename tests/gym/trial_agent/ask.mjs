// Posts what standard input lists to the model at OPENAI_BASE_URL, as a command-line agent would.
import { readFileSync } from "node:fs";

for (const body of JSON.parse(readFileSync(0, "utf8"))) {
  const answer = await fetch(`${process.env.OPENAI_BASE_URL}/responses`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });
  await answer.arrayBuffer();
}
