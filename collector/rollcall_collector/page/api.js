/* The collector's API, as docs/api.md has it. Addresses are relative, so the page also works below a path. */

/** Why there is no answer. `status` is 0 where nobody answered. */
export class Trouble extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

const PATIENCE_MS = 20_000;

let ahead = 0;

/** Milliseconds since the epoch by the collector's clock, which the times in its answers are of. */
export const clock = () => Date.now() + ahead;

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
    // The Date field is of whole seconds (RFC 9110, section 5.6.7): what is within one of them is no difference.
    const difference = Date.parse(answer.headers.get("Date")) - Date.now();
    ahead = Math.abs(difference) > 2_000 ? difference : 0;
    if (answer.ok) return await answer.json();
  } catch (error) {
    throw new Trouble(0, `the collector does not answer (${error.name})`);
  }
  const problem = await answer.json().catch(() => ({}));
  throw new Trouble(answer.status, problem.detail || problem.title || `status ${answer.status}`);
}
