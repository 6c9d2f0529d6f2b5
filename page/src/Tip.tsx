// The text beside the pointer.
import type { State } from "./state";

export function Tip({ state }: { state: Pick<State, "tip"> }) {
  const tip = state.tip.value;
  if (!tip) return null;
  const right = tip.x > innerWidth - 380;
  const low = tip.y > innerHeight - 140;
  const place = {
    left: right ? "auto" : `${tip.x + 14}px`,
    right: right ? `${innerWidth - tip.x + 10}px` : "auto",
    top: low ? "auto" : `${tip.y + 16}px`,
    bottom: low ? `${innerHeight - tip.y + 12}px` : "auto",
  };
  return (
    <div class="tip" role="tooltip" style={place}>
      <b>{tip.title}</b>
      {tip.lines.map((line, i) => (
        <span key={i}>{line}</span>
      ))}
    </div>
  );
}
