/* What is looked at, kept in the address after `#`, so that a link shows the same and the back button works. */

/** Each name with what it is where the address does not say. An empty run is the newest one. */
const PLAIN = {
  run: "",
  group: "cause",
  state: "failed",
  benchmark: "",
  cause: "",
  q: "",
  after: "0",
  rollout: "",
  of: "",
};

/** What may be said, where that is not any text. */
const CHOICES = {
  group: ["cause", "server", "task"],
  state: ["all", "succeeded", "failed", "omitted", "running", "missing"],
};

/** What the address says. */
export function addressed() {
  const said = new URLSearchParams(location.hash.slice(1));
  const found = Object.fromEntries(Object.entries(PLAIN).map(([key, plain]) => [key, said.get(key) ?? plain]));
  for (const [key, choices] of Object.entries(CHOICES)) {
    if (!choices.includes(found[key])) found[key] = PLAIN[key];
  }
  if (!/^\d{1,9}$/.test(found.after)) found.after = "0";
  return found;
}

/** An address like the present one but for these. */
export function link(change) {
  const wanted = { ...addressed(), ...change };
  const said = new URLSearchParams();
  for (const [key, plain] of Object.entries(PLAIN)) {
    if (wanted[key] !== plain) said.set(key, wanted[key]);
  }
  return `#${said}`;
}

/** Go there, as by a click. */
export function go(change) {
  location.hash = link(change);
}

/** Be there, without a step for the back button. */
export function settle(change) {
  history.replaceState(history.state, "", link(change));
  dispatchEvent(new HashChangeEvent("hashchange"));
}
