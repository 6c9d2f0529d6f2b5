// Round buttons with one sign on them; what they do is said to those who cannot see the sign.
import type { State } from "./state";

export function Round({ label, title, sign, act }: { label: string; title?: string; sign: string; act: () => void }) {
  return (
    <button class="round" title={title} aria-label={label} onClick={act}>
      {sign}
    </button>
  );
}

// At the end of each page's bar.
export function ThemeAndHelp({ state }: { state: Pick<State, "theme" | "helping"> }) {
  const dark = state.theme.value === "dark";
  return (
    <>
      <Round
        label="light or dark theme"
        title="light or dark theme (d)"
        sign={dark ? "☀" : "☾"}
        act={() => {
          state.theme.value = dark ? "light" : "dark";
        }}
      />
      <Round
        label="help"
        title="help (?)"
        sign="?"
        act={() => {
          state.helping.value = true;
        }}
      />
    </>
  );
}
