// Handing something to the person: a file to keep, text to paste.

export function download(content: Blob | string, name: string): void {
  const blob = typeof content === "string" ? new Blob([content]) : content;
  const address = URL.createObjectURL(blob);
  const link = document.createElement("a");
  link.href = address;
  link.download = name.replace(/[^\w.-]+/g, "-");
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000); // the browser reads it a little later
}

/** Whether the text is on the clipboard now. Over plain http from another machine the browser has none for us: then the older way. */
export async function copied(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const field = document.createElement("textarea");
    field.value = text;
    document.body.append(field);
    field.select();
    const done = document.execCommand("copy");
    field.remove();
    return done;
  }
}
