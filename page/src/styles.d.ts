// Style sheets are bundled by esbuild; to TypeScript they are nothing.
declare module "*.css";
