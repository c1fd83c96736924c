/*
 * Following a run: its status whenever it changes, and whether the collector is there.
 *
 * The status is read once, then told by server-sent events. A stream that ends is opened again by the browser; one
 * that is refused, and a run that is not there yet, are tried again here. A stream can also die without a word, so
 * the status is read again every now and then. A tab that nobody sees gives its stream back (a browser has six
 * connections to a host) and only asks for its title's sake.
 */

import { ofRun, read } from "./api.js";

const AGAIN_MS = 2_000;
const LOOK_MS = 10_000;

/** Calls `told(status)` for each status, `lost(trouble)` when there is none to be had. */
export class Following {
  #run = "latest";
  #stream = null;
  #timer = 0;
  #turn = 0;

  constructor(told, lost) {
    this.told = told;
    this.lost = lost;
    document.addEventListener("visibilitychange", () => this.follow(this.#run));
  }

  /** Follow this run and no other; `latest` is the newest one. */
  follow(run) {
    this.#run = run;
    this.#close();
    this.#look();
  }

  #close() {
    this.#turn += 1;
    clearTimeout(this.#timer);
    this.#stream?.close();
    this.#stream = null;
  }

  async #look() {
    const turn = this.#turn;
    let pause = LOOK_MS;
    try {
      const status = await read(ofRun(this.#run));
      if (turn !== this.#turn) return;
      this.told(status);
      if (!document.hidden) this.#listen(status.run);
    } catch (trouble) {
      if (turn !== this.#turn) return;
      this.#stream?.close();
      this.#stream = null;
      this.lost(trouble);
      pause = AGAIN_MS;
    }
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#look(), pause);
  }

  #listen(run) {
    if (this.#stream?.run === run) return;
    this.#stream?.close();
    const stream = new EventSource(ofRun(run, "/events"));
    this.#stream = stream;
    stream.run = run;
    stream.addEventListener("status", (event) => this.told(JSON.parse(event.data)));
    stream.addEventListener("error", () => this.#broken(stream));
  }

  /** Whether the collector is gone, or only the stream, is for the next look to say. */
  #broken(stream) {
    if (stream !== this.#stream) return;
    this.#close();
    this.#timer = setTimeout(() => this.#look(), AGAIN_MS / 4);
  }
}
