// One script and one style sheet per page, without a loader: the Go side puts them into the page
// and names them by their hashes.
import { defineConfig } from "vite";

export default defineConfig({
  logLevel: "warn",
  build: {
    outDir: "dist",
    emptyOutDir: false,
    target: "es2022",
    lib: { entry: "src/report/main.ts", formats: ["iife"], name: "plimsollReport", fileName: () => "report.js", cssFileName: "report" },
  },
});
