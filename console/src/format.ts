// Numbers and times for people. Every function takes what the API sends.

const number = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

export const count = (value: number) => number.format(value);

export function dollars(nano: number) {
  const value = nano / 1e9;
  if (value === 0) return "$0";
  if (value < 0.0001) return "<$0.0001";
  return `$${value.toFixed(value < 1 ? 4 : 2)}`;
}

/** A cost. With an estimated part it is marked: the upstream did not report all of it. */
export const cost = (nano: number, isEstimate: boolean) => `${isEstimate ? "≈ " : ""}${dollars(nano)}`;

export function bytes(value: number) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`;
}

export function millis(value: number) {
  if (value < 1000) return `${Math.round(value)} ms`;
  if (value < 60_000) return `${(value / 1000).toFixed(1)} s`;
  const minutes = Math.floor(value / 60_000);
  if (minutes < 60) return `${minutes} min ${Math.floor((value % 60_000) / 1000)} s`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

/** Time since a moment. */
export function distance(at: string, now: number) {
  const ms = Math.abs(now - Date.parse(at));
  if (ms < 60_000) return `${Math.floor(ms / 1000)} s`;
  if (ms < 3_600_000) return `${Math.floor(ms / 60_000)} min`;
  if (ms < 172_800_000) return `${Math.floor(ms / 3_600_000)} h`;
  return `${Math.floor(ms / 86_400_000)} d`;
}

/** Time until a moment. What is over is never in the future. */
export function until(at: string, now: number) {
  const ms = Date.parse(at) - now;
  if (ms > 0) return `in ${distance(at, now)}`;
  return ms > -60_000 ? "now" : `overdue by ${distance(at, now)}`;
}

export const moment = (at: string) =>
  new Date(at).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "medium" });

export const clock = (at: string) => new Date(at).toLocaleTimeString("en-GB");

/** The start of an id, enough to recognise it. */
export const short = (id: string) => id.slice(0, 8);
