// The list of keys, over everything; a click closes it.
import type { State } from "./state";

export function Help({ state, keys }: { state: Pick<State, "helping">; keys: [string, string][] }) {
  if (!state.helping.value) return null;
  return (
    <div class="help" role="dialog" aria-label="help" onClick={() => (state.helping.value = false)}>
      <dl>
        {keys.map(([key, words]) => (
          <div key={key}>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{words}</dd>
          </div>
        ))}
      </dl>
    </div>
  );
}
