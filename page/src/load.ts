// Load the data: from inside this file, if it is a saved page; else from the server.
import { recorded } from "./live";
import type { Live } from "./live";

declare global {
  interface Uint8ArrayConstructor {
    fromBase64?: (text: string) => Uint8Array<ArrayBuffer>;
  }
}

export async function load(live: Live | null = null): Promise<ArrayBuffer> {
  const inside = document.getElementById("bundle");
  if (!inside) {
    const answer = await fetch(live?.query ? `bundle?${live.query}` : "bundle");
    if (!answer.ok) {
      const words = live ? (await answer.text()).slice(0, 300) : "is it still the one that opened this page?";
      throw new Error(`the server answered ${answer.status}; ${words}`);
    }
    const [first, last] = ["First", "Last"].map((name) => Number(answer.headers.get(`X-Recorded-${name}`)));
    if (first && last) recorded.value = { first, last };
    return answer.arrayBuffer();
  }
  const packed = unpacked((inside.textContent ?? "").trim());
  inside.remove(); // tens of megabytes, not needed again
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).arrayBuffer();
}

function unpacked(text: string): Uint8Array<ArrayBuffer> {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const letters = atob(text);
  const bytes = new Uint8Array(letters.length);
  for (let i = 0; i < letters.length; i++) bytes[i] = letters.charCodeAt(i);
  return bytes;
}
