import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

// `npm run dev` passes requests for the API on to this server.
const server = process.env.BELLJAR_URL ?? "http://127.0.0.1:3000";

export default defineConfig({
  base: "/console/",
  plugins: [react()],
  // The content security policy forbids `data:` scripts and styles, so nothing is inlined.
  build: { assetsInlineLimit: 0, modulePreload: { polyfill: false }, reportCompressedSize: false },
  server: { proxy: { "/v1": server } },
});
