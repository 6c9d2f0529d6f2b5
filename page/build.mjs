// Build both pages into the Python package: of each one script, one style sheet, nothing fetched from anywhere.
import { build } from "esbuild";
import { fileURLToPath } from "node:url";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));

await build({
  entryPoints: { page: here("src/main.tsx"), fleet: here("src/fleetMain.tsx") },
  outdir: here("../src/zombiescope/web/static"),
  bundle: true,
  minify: !process.argv.includes("--plain"),
  format: "iife", // a single file that also runs inline, from disk
  target: ["es2022"],
  jsx: "automatic",
  jsxImportSource: "preact",
  charset: "utf8",
  legalComments: "eof",
  logLevel: "warning",
});
