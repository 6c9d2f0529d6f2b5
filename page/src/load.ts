// Load the data: from inside this file, if it is a saved page; else from the server, once.

declare global {
  interface Uint8ArrayConstructor {
    fromBase64?: (text: string) => Uint8Array<ArrayBuffer>;
  }
}

export async function load(): Promise<ArrayBuffer> {
  const inside = document.getElementById("bundle");
  if (!inside) {
    const answer = await fetch("bundle");
    if (!answer.ok) throw new Error(`the server answered ${answer.status}; is it still the one that opened this page?`);
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
