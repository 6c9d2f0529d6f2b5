// Writes as SVG what a flame graph paints on a canvas.

const UNSAFE = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

/** Names come from the machine: nothing in them is markup, and nothing that XML cannot hold stays. */
export function quoted(text: string): string {
  const entities: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
  return text.replace(UNSAFE, "\ufffd").replace(/[&<>"]/g, (it) => entities[it]);
}

/** The part of a canvas that a flame graph needs. */
export interface Pen {
  font: string;
  textBaseline: CanvasTextBaseline;
  globalAlpha: number;
  fillStyle: string | CanvasGradient | CanvasPattern;
  fillRect: (x: number, y: number, width: number, height: number) => void;
  fillText: (text: string, x: number, y: number) => void;
}

export class SvgPen implements Pen {
  font = "";
  textBaseline: CanvasTextBaseline = "middle";
  globalAlpha = 1;
  fillStyle: string | CanvasGradient | CanvasPattern = "";
  private readonly parts: string[] = [];
  private title = "";

  constructor(width: number, height: number, title: string, paper: string) {
    this.parts.push(
      // The name of the language; nothing is fetched from there.
      `<svg xmlns="${["http:", "", "www.w3.org", "2000", "svg"].join("/")}" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" ` +
        `font-family="ui-monospace, Menlo, Consolas, monospace" font-size="10.5">`,
      `<title>${quoted(title)}</title>`,
      `<rect width="100%" height="100%" fill="${paper}"/>`,
    );
  }

  /** What the next box is called when the pointer is over it. */
  named(title: string): void {
    this.title = title;
  }

  fillRect(x: number, y: number, width: number, height: number): void {
    const place = [x, y, width, height].map((it) => Number(it.toFixed(2)));
    const faint = this.globalAlpha < 1 ? ` opacity="${this.globalAlpha}"` : "";
    this.parts.push(
      `<rect x="${place[0]}" y="${place[1]}" width="${place[2]}" height="${place[3]}" fill="${String(this.fillStyle)}"${faint}>` +
        `<title>${quoted(this.title)}</title></rect>`,
    );
  }

  fillText(text: string, x: number, y: number): void {
    this.parts.push(
      `<text x="${x.toFixed(1)}" y="${(y + 3.5).toFixed(1)}" fill="${String(this.fillStyle)}" pointer-events="none">${quoted(text)}</text>`,
    );
  }

  text(): string {
    return `${this.parts.join("\n")}\n</svg>\n`;
  }
}
