import { defineConfig } from 'vitest/config';

// Relative addresses: the same folder is served by `tailback explore`, inside the documents, or on any static host.
export default defineConfig({
  base: './',
  build: { target: 'es2022', chunkSizeWarningLimit: 600 },
  worker: { format: 'es' },
  test: { include: ['tests/**/*.test.ts'], environment: 'node' },
});
