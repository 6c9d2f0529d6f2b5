// A flame graph that answers the pointer and the keyboard.
import { useComputed, useSignal } from "@preact/signals";
import type { ReadonlySignal } from "@preact/signals";
import { Canvas } from "./Canvas";
import { ROW, depthOf, frameAt, paintFlame, placeOf } from "./flame";
import type { Drawing } from "./flame";
import { beside } from "./frameKeys";
import type { Told } from "./hover";
import type { State } from "./state";

interface Props {
  state: Pick<State, "tip">;
  drawing: ReadonlySignal<Drawing>;
  name: string;
  label: string;
  tell: (node: number) => Told;
  act: (node: number) => void;
}

export function FrameCanvas({ state, drawing, name, label, tell, act }: Props) {
  const height = useComputed(() => Math.max(name === "flames" ? 6 : 1, depthOf(drawing.value)) * ROW);
  const at = useSignal(-1); // the frame that the arrow keys have come to
  const pointed = (event: PointerEvent | MouseEvent): number => {
    const box = (event.currentTarget as HTMLElement).getBoundingClientRect();
    return frameAt(drawing.value, height.value, event.clientX - box.left, event.clientY - box.top);
  };
  const hide = () => {
    state.tip.value = null;
  };
  const keys = (event: KeyboardEvent) => {
    const now = at.value < 0 ? drawing.value.focus : at.value;
    if (event.key === "Enter" && at.value >= 0) act(now);
    else if (event.key.startsWith("Arrow") && !event.ctrlKey && !event.metaKey) {
      at.value = at.value < 0 ? now : beside(drawing.value, now, event.key);
    } else return;
    event.preventDefault();
    event.stopPropagation(); // else the arrows would pan
  };
  const box = at.value >= 0 ? placeOf(drawing.value, height.value, at.value) : null;
  return (
    <div
      class="frames"
      role="group"
      aria-roledescription="flame graph"
      aria-label={`${label}; arrow keys go from frame to frame, Enter opens one`}
      tabIndex={0}
      style={{ height: `${height.value}px` }}
      onPointerMove={(event) => {
        const node = pointed(event);
        state.tip.value = node < 0 ? null : { x: event.clientX, y: event.clientY, ...tell(node) };
      }}
      onPointerLeave={hide}
      onBlur={() => {
        at.value = -1;
      }}
      onKeyDown={keys}
      onClick={(event) => {
        const node = pointed(event);
        if (node >= 0) act(node);
      }}
    >
      <Canvas
        name={name}
        width={drawing.value.width}
        height={height.value}
        paint={(context, _, tall) => {
          paintFlame(context, drawing.value, tall);
        }}
      />
      {box ? <i class="at-frame" style={{ left: `${box.left}px`, top: `${box.top}px`, width: `${box.width}px` }} /> : null}
      <p class="unseen" role="status">
        {at.value >= 0 ? [tell(at.value).title, ...tell(at.value).lines].join(", ") : ""}
      </p>
    </div>
  );
}

// The whole of a flame graph: a click brings a frame to full width.
export function Flames({ state, ...rest }: Pick<Props, "drawing" | "tell"> & { state: Pick<State, "tip" | "focus"> }) {
  const focus = (node: number) => {
    state.focus.value = node;
  };
  return <FrameCanvas {...rest} state={state} name="flames" label="flame graph" act={focus} />;
}
