import { defineConfig } from 'vitest/config';

// In a browser, one file after another: they measure time.
export default defineConfig({
  test: {
    include: [process.env.MEASURE ? 'e2e/measure.ts' : 'e2e/**/*.test.ts'],
    environment: 'node',
    testTimeout: process.env.MEASURE ? 600_000 : 60_000,
    hookTimeout: 60_000,
    fileParallelism: false,
    reporters: ['default'],
  },
});
