/* Numbers, times and foreign text as people read them. Nothing here touches the document. */

const GROUPED = new Intl.NumberFormat("en-US");
const LOCAL = new Intl.DateTimeFormat("en-GB", {
  day: "numeric",
  month: "short",
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  hour12: false,
});

/** 100,000 with its commas. */
export const number = (value) => GROUPED.format(value);

/** "1 rollout", "2 rollouts". */
export const plural = (count, one, many = `${one}s`) => `${number(count)} ${count === 1 ? one : many}`;

/** A share of a whole in percent. Neither rounds to a whole: one failure of 100,000 is not "0%" and not "100%". */
export function percent(part, whole) {
  if (!whole || !part) return "0%";
  const share = (100 * part) / whole;
  if (share < 0.1) return "under 0.1%";
  if (share > 99.9 && part < whole) return "over 99.9%";
  return `${share.toFixed(share < 10 || (share > 99 && part < whole) ? 1 : 0)}%`;
}

/** `83 ms`, `1.24 s`, `412 s`, `25 min`, `3 h 20 min`, as the text form says it. */
export function duration(seconds) {
  const span = Math.max(0, seconds);
  if (span < 0.9995) {
    const thousandths = span * 1000;
    return `${thousandths.toFixed(thousandths >= 9.95 || thousandths < 0.05 ? 0 : 1)} ms`;
  }
  if (span < 599.5) return `${span.toFixed(span < 9.995 ? 2 : span < 99.95 ? 1 : 0)} s`;
  const minutes = Math.round(span / 60);
  return minutes < 120 ? `${minutes} min` : `${number(Math.floor(minutes / 60))} h ${minutes % 60} min`;
}

/** An interval of whole seconds: `1 s`, `30 s`, `5 min`, `2 h`. */
export function interval(seconds) {
  if (seconds < 120) return `${seconds} s`;
  return seconds % 3600 || seconds < 7200 ? `${number(seconds / 60)} min` : `${number(seconds / 3600)} h`;
}

/** Seconds since the epoch, in the reader's own time zone. */
export const local = (at) => LOCAL.format(at * 1000);

/** The same in UTC, as logs have it. */
export const utc = (at) => `${new Date(at * 1000).toISOString().slice(0, 19).replace("T", " ")} UTC`;

/*
 * Characters that are not seen, or that make others be seen elsewhere: controls, the bidirectional ones (Unicode
 * UAX #9), spaces of no width, line separators, tags, and halves of a pair. They are shown by name.
 */
const UNSEEN =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]|\p{Cs}/gu;

/** Foreign text with nothing in it that hides: U+202E stands there as [U+202E], a NUL as ␀. */
export function visible(text) {
  return String(text).replace(UNSEEN, (char) => {
    const code = char.codePointAt(0);
    if (code === 0x0d) return "";
    if (code < 0x20) return String.fromCodePoint(0x2400 + code);
    return `[U+${code.toString(16).toUpperCase().padStart(4, "0")}]`;
  });
}

/** The first line that says something. */
export function firstLine(text) {
  return (
    String(text ?? "")
      .split(/[\r\n]+/)
      .map((line) => line.trim())
      .find(Boolean) ?? ""
  );
}
