// A canvas that is repainted when its size or a signal that its painting reads changes.
import { effect, useSignal } from "@preact/signals";
import { useLayoutEffect, useRef } from "preact/hooks";

interface Props {
  width: number;
  height: number;
  top?: number;
  name: string;
  paint: (context: CanvasRenderingContext2D, width: number, height: number) => void;
}

export function Canvas({ width, height, top = 0, name, paint }: Props) {
  const element = useRef<HTMLCanvasElement>(null);
  const latest = useRef(paint);
  const size = useSignal({ width, height });
  latest.current = paint;
  useLayoutEffect(() => {
    size.value = { width, height };
  }, [width, height]);
  // Before the browser shows anything: an effect of its own would come a frame later.
  useLayoutEffect(
    () =>
      effect(() => {
        const { width: wide, height: tall } = size.value;
        const canvas = element.current;
        const context = canvas?.getContext("2d");
        if (!canvas || !context || wide <= 0 || tall <= 0) return;
        const dots = devicePixelRatio || 1;
        const across = Math.round(wide * dots);
        const down = Math.round(tall * dots);
        if (canvas.width !== across || canvas.height !== down) {
          canvas.width = across;
          canvas.height = down;
        }
        context.setTransform(dots, 0, 0, dots, 0, 0);
        context.clearRect(0, 0, wide, tall);
        latest.current(context, wide, tall);
      }),
    [],
  );
  return (
    <canvas
      ref={element}
      class={`canvas ${name}`}
      aria-hidden="true"
      style={{ top: `${top}px`, width: `${width}px`, height: `${height}px` }}
    />
  );
}
