// The flame graph for other tools, made here from what is shown: the same samples, the same weights.
import { KERNEL } from "./data";
import type { Bundle } from "./data";
import { ROW, paintFlame, pathTo } from "./flame";
import type { Drawing } from "./flame";
import { pprofOf } from "./pprof";
import type { Flame } from "./samples";
import { SvgPen } from "./svgPen";

export interface Stack {
  labels: number[]; // from the process to the innermost function
  weight: number;
}

/** Each stack that has a weight of its own. */
export function stacksOf(bundle: Bundle, flame: Flame): Stack[] {
  const { tree } = bundle;
  const found: Stack[] = [];
  for (let i = 1; i < flame.own.length; i++) {
    if (flame.own[i]) found.push({ labels: pathTo(tree, i).slice(1).map((node) => Number(tree.label[node])), weight: flame.own[i] });
  }
  return found;
}

export function speedscopeOf(bundle: Bundle, flame: Flame, title: string): string {
  const { tree, header } = bundle;
  const stacks = stacksOf(bundle, flame);
  const used = [...new Set(stacks.flatMap((it) => it.labels))];
  const place = new Map(used.map((label, i) => [label, i]));
  const frame = (label: number) => {
    const file = tree.kinds[label] === KERNEL ? "[kernel]" : tree.modules[label];
    return file ? { name: tree.names[label], file } : { name: tree.names[label] };
  };
  return JSON.stringify({
    // The name by which others know the format; nothing is fetched from there.
    $schema: ["https:", "", "www.speedscope.app", "file-format-schema.json"].join("/"),
    shared: { frames: used.map(frame) },
    profiles: [
      {
        type: "sampled",
        name: title,
        unit: header.unit === "nanoseconds" ? "nanoseconds" : "none",
        startValue: 0,
        endValue: flame.all,
        samples: stacks.map((it) => it.labels.map((label) => place.get(label)!)),
        weights: stacks.map((it) => it.weight),
      },
    ],
    exporter: `zombiescope ${header.zombiescope}`,
    name: title,
  });
}

export async function pprofFile(bundle: Bundle, flame: Flame): Promise<Blob> {
  const bytes = pprofOf(bundle, stacksOf(bundle, flame));
  const stream = new Blob([bytes]).stream().pipeThrough(new CompressionStream("gzip"));
  return new Response(stream).blob();
}

/** The frames as they are drawn, with their whole names in it. */
export function svgOf(drawing: Drawing, depth: number, title: string): string {
  const pen = new SvgPen(drawing.width, depth * ROW, title, drawing.palette.paper);
  paintFlame(pen, drawing, depth * ROW, (node) => {
    const label = drawing.tree.label[node];
    const share = drawing.flame.all ? (100 * drawing.flame.total[node]) / drawing.flame.all : 0;
    pen.named(`${drawing.tree.names[label]} (${share.toFixed(2)}%)`);
  });
  return pen.text();
}
