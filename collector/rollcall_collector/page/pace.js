/*
 * How quickly rollouts end, from what this page has seen: over the last ten minutes at the most. Before it has seen a
 * minute, from the run's begin, where the run had no resume, which would count hours in which nobody worked.
 */

const SPAN_MS = 600_000;
const ENOUGH_MS = 60_000;

/** Seconds after a run's begin in which its rate says nothing. */
const TOO_SOON_S = 10;

export class Pace {
  #run = "";
  #seen = [];

  /** So many rollouts have an end now. */
  note(status, now) {
    const done = ended(status.totals);
    const last = this.#seen.at(-1);
    if (status.run !== this.#run || (last && done < last.done)) this.#seen = [];
    this.#run = status.run;
    this.#seen.push({ now, done });
    // One sample before the span stays, so that a silent stretch counts in full; of those of one second, the last.
    while (this.#seen.length > 1 && this.#seen[1].now < now - SPAN_MS) this.#seen.shift();
    if (
      this.#seen.length > 2 &&
      now - this.#seen.at(-2).now < 1000 &&
      this.#seen.at(-2).now - this.#seen.at(-3).now < 1000
    ) {
      this.#seen.splice(-2, 1);
    }
  }

  /** `{ perSecond, over, secondsLeft }`; null where nothing can be said. `over` says what it is measured over. What is
   * stalled has no end that a rate could tell. */
  of(status, now, wallClock) {
    if (status.state !== "running" || !this.#seen.length) return null;
    const first = this.#seen[0];
    const watched = now - first.now;
    const done = ended(status.totals);
    let [count, seconds, over] = [done - first.done, watched / 1000, watched];
    if (watched < ENOUGH_MS) {
      if (status.sessions !== 1) return null;
      [count, seconds, over] = [done, wallClock / 1000 - status.started_at, 0];
    }
    if (seconds < TOO_SOON_S) return null;
    const perSecond = count / seconds;
    const left = status.totals.expected - done - status.stalled;
    const known = status.expected_source === "materialized_inputs";
    return { perSecond, over: over / 1000, secondsLeft: known && perSecond > 0 && left > 0 ? left / perSecond : null };
  }
}

const ended = (totals) => totals.succeeded + totals.failed + totals.omitted;
