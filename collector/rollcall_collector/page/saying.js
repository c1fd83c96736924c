/* A word to those who listen, when something else is to be said, and at most every ten seconds. */

const QUIET_MS = 10_000;

let said = "";
let saidAt = -QUIET_MS;
let waiting = 0;

/** Say this in the page's live region. */
export function announce(words) {
  clearTimeout(waiting);
  waiting = setTimeout(
    () => {
      if (words === said) return;
      said = words;
      saidAt = performance.now();
      document.getElementById("announced").textContent = words;
    },
    Math.max(0, saidAt + QUIET_MS - performance.now()),
  );
}
