// Cost by day, each account a colour. uPlot draws on a canvas; the table has the same numbers.

import { useEffect, useMemo, useRef } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import type { UsageGroup } from "../api/types";
import { dollars } from "../format";

const DAY = 86_400;
const HEIGHT = 190;
const NANO = 1e9;
/** Accounts from the bottom up, each with the variable of its colour. */
const ACCOUNTS = [["models", "--accent"], ["sandboxes", "--good"], ["egress", "--warn"], ["storage", "--muted"]] as const;

/** Seconds of each day, and the sums of the accounts up to each account. */
function stack(groups: UsageGroup[], from: string): number[][] {
  const first = Math.floor(Date.parse(from) / 1000 / DAY) * DAY;
  const last = Math.floor(Date.now() / 1000 / DAY) * DAY;
  const days = Array.from({ length: (last - first) / DAY + 1 }, (_, at) => first + at * DAY);
  let below = days.map(() => 0);
  const sums = ACCOUNTS.map(([account]) => {
    below = days.map((day, at) => {
      const group = groups.find((it) => it.account === account && it.day && Date.parse(it.day) / 1000 === day);
      return (below[at] ?? 0) + (group?.used.nano_dollars ?? 0) / NANO;
    });
    return below;
  });
  return [days, ...sums];
}

export default function Chart({ groups, from }: { groups: UsageGroup[]; from: string }) {
  const place = useRef<HTMLDivElement>(null);
  const data = useMemo(() => stack(groups, from), [groups, from]);
  useEffect(() => {
    const element = place.current;
    if (!element) return;
    let plot: uPlot | undefined;
    const draw = () => {
      plot?.destroy();
      const color = (name: string) => {
        // A canvas does not know `light-dark()`: the computed colour of an element does.
        element.style.color = `var(${name})`;
        return getComputedStyle(element).color;
      };
      const axis = { stroke: color("--muted"), grid: { stroke: color("--line"), width: 1 }, ticks: { show: false } };
      // The highest sum is drawn first, and the lower ones before it.
      const series = ACCOUNTS.map(([label, name], at) => ({ label, fill: color(name), stroke: color(name), width: 0, points: { show: false }, paths: uPlot.paths.bars?.({ size: [0.7, 40] }), at }));
      plot = new uPlot(
        {
          width: element.clientWidth,
          height: HEIGHT,
          legend: { show: false },
          cursor: { show: false },
          scales: { x: { time: true, range: (_, low, high) => [low - DAY / 2, high + DAY / 2] }, y: { range: (_, __, high) => [0, high || 1] } },
          axes: [{ ...axis, size: 30, values: (_, days) => days.map((day) => new Date(day * 1000).toISOString().slice(5, 10)), incrs: [DAY, 2 * DAY, 7 * DAY, 14 * DAY] }, { ...axis, size: 70, values: (_, sums) => sums.map((sum) => dollars(sum * NANO)) }],
          series: [{}, ...series.toReversed().map(({ at: _, ...one }) => one)],
          tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
        },
        [data[0] ?? [], ...data.slice(1).toReversed()] as uPlot.AlignedData,
        element,
      );
    };
    const resized = new ResizeObserver(draw);
    resized.observe(element);
    const themed = new MutationObserver(draw);
    themed.observe(document.documentElement, { attributeFilter: ["data-theme"] });
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    scheme.addEventListener("change", draw);
    return () => {
      resized.disconnect();
      themed.disconnect();
      scheme.removeEventListener("change", draw);
      plot?.destroy();
    };
  }, [data]);
  return (
    <>
      <div ref={place} className="chart" role="img" aria-label="Cost by day; the table by day has the numbers" />
      <div className="bar" aria-hidden="true">
        {ACCOUNTS.map(([name, variable]) => <span key={name} className="state" style={{ color: `var(${variable})` }}>{name}</span>)}
      </div>
    </>
  );
}
