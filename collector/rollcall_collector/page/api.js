/* The collector's API, as docs/api.md has it. Addresses are relative, so the page also works below a path. */

/** Why there is no answer. `status` is 0 where nobody answered. */
export class Trouble extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

const PATIENCE_MS = 20_000;

/** The address of a page about a run. */
export const ofRun = (run, rest = "") => `v1/runs/${encodeURIComponent(run)}${rest}`;

/** The JSON of a good answer; those of `query` that are empty are left out. Throws Trouble. */
export async function read(path, query = {}) {
  const said = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== "" && value !== null));
  const address = said.size ? `${path}?${said}` : path;
  let answer;
  try {
    const signal = AbortSignal.timeout(PATIENCE_MS);
    answer = await fetch(address, { headers: { Accept: "application/json" }, cache: "no-store", signal });
    if (answer.ok) return await answer.json();
  } catch (error) {
    throw new Trouble(0, `the collector does not answer (${error.name})`);
  }
  const problem = await answer.json().catch(() => ({}));
  throw new Trouble(answer.status, problem.detail || problem.title || `status ${answer.status}`);
}
