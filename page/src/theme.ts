// Light and dark colours for the canvases, which cannot read the style sheet.

export type Theme = "light" | "dark";
type Colour = readonly [number, number, number];

export interface Palette {
  paper: string;
  raised: string;
  ink: string;
  soft: string;
  rule: string;
  unseen: string;
  chosen: string;
  chosenWash: string;
  baseline: string;
  baselineWash: string;
  event: string;
  line: string;
  wash: string;
  modes: readonly Colour[]; // user, system, irq, softirq, steal
  heat: Uint32Array;
  grey: Uint32Array;
  found: Uint32Array; // 256 shades each, as pixels
  kernel: string[];
  user: string[];
  process: string[];
  root: string;
  match: string;
  text: string;
  rose: string[];
  fell: string[];
  same: string;
}

/** Of everything the light one, then the dark one. */
const BOTH: { [Name in keyof Palette]: readonly [Palette[Name], Palette[Name]] } = {
  paper: ["#fdfdfc", "#16181b"],
  raised: ["#f6f5f2", "#1e2125"],
  ink: ["#1d2024", "#e7e6e2"],
  soft: ["#5b616a", "#a0a6af"],
  rule: ["#e2e0da", "#33373d"],
  unseen: ["#efeeea", "#212429"],
  chosen: ["#1b5e9b", "#8fc2f5"],
  chosenWash: ["rgb(27 94 155 / 16%)", "rgb(143 194 245 / 20%)"],
  baseline: ["#0f766e", "#5fd0c0"],
  baselineWash: ["rgb(15 118 110 / 15%)", "rgb(95 208 192 / 18%)"],
  event: ["#a3261d", "#ff9a8f"],
  line: ["#1b5e9b", "#8fc2f5"],
  wash: ["rgb(27 94 155 / 10%)", "rgb(143 194 245 / 14%)"],
  modes: [
    [[74, 144, 194], [217, 130, 43], [142, 91, 181], [194, 57, 100], [122, 128, 136]],
    [[84, 150, 200], [226, 142, 58], [168, 122, 206], [226, 88, 130], [140, 146, 154]],
  ],
  heat: [
    ramp([[250, 249, 247], [251, 231, 200], [241, 164, 88], [205, 70, 42], [98, 14, 30]]),
    ramp([[24, 26, 30], [58, 33, 38], [132, 46, 42], [206, 96, 44], [250, 190, 96]]),
  ],
  grey: [
    ramp([[250, 249, 247], [150, 150, 148]]),
    ramp([[24, 26, 30], [104, 108, 116]]),
  ],
  found: [
    ramp([[226, 205, 243], [150, 62, 201], [88, 20, 140]]),
    ramp([[84, 52, 110], [178, 106, 230], [240, 214, 255]]),
  ],
  kernel: [["#e3a25c", "#dd9448", "#e8ae70", "#d98b3b"], ["#b8732c", "#a96825", "#c27f3a", "#9f6122"]],
  user: [["#8bb8d8", "#7aadd2", "#9cc3de", "#6ea5cd"], ["#3f78a3", "#386d96", "#4a84b0", "#32648b"]],
  process: [["#d3d1cb", "#c9c7c0", "#dad8d3", "#cfcdc7"], ["#4a4e55", "#43474d", "#52565e", "#474b52"]],
  root: ["#e6e4df", "#33373d"],
  match: ["#c58be8", "#8d4fb5"],
  text: ["#1d2024", "#f2f1ee"],
  rose: [shades([238, 234, 231], [230, 102, 88]), shades([52, 54, 58], [214, 66, 54])],
  fell: [shades([238, 234, 231], [104, 160, 218]), shades([52, 54, 58], [62, 126, 196])],
  same: ["#eeeae7", "#34363a"],
};

export const PALETTES: Record<Theme, Palette> = { light: palette(0), dark: palette(1) };

function palette(which: 0 | 1): Palette {
  return Object.fromEntries(Object.entries(BOTH).map(([name, both]) => [name, both[which]])) as unknown as Palette;
}

/** 256 shades through the given stops, as the pixels of an image (little-endian: alpha, blue, green, red). */
function ramp(stops: readonly Colour[]): Uint32Array {
  return Uint32Array.from({ length: 256 }, (_, i) => pixel(between(stops, i / 255)));
}

function shades(from: Colour, to: Colour): string[] {
  return Array.from(
    { length: 9 },
    (_, i) =>
      `rgb(${between([from, to], i / 8)
        .map(Math.round)
        .join(" ")})`,
  );
}

function between(stops: readonly Colour[], share: number): Colour {
  const place = Math.min(share * (stops.length - 1), stops.length - 1 - 1e-9);
  const first = Math.floor(place);
  const mixed = [0, 1, 2].map((i) => stops[first][i] + (stops[first + 1][i] - stops[first][i]) * (place - first));
  return [mixed[0], mixed[1], mixed[2]];
}

export function pixel([red, green, blue]: Colour): number {
  return ((255 << 24) | (Math.round(blue) << 16) | (Math.round(green) << 8) | Math.round(red)) >>> 0;
}

export function preferred(): Theme {
  return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}
