// Random scenarios of tests/fuzz in the module that the page loads, without a browser.

import { spawnSync } from 'node:child_process';
import { expect, test } from 'vitest';
import { python, root } from './harness';

test('eighty_random_scenarios_give_the_bytes_of_the_native_engine', () => {
  const options = { cwd: `${root}/tests`, encoding: 'utf8' } as const;
  const done = spawnSync(python, ['-m', 'fuzz.web', '--cases', '80'], options);
  expect(`${done.stdout}${done.stderr}`).toMatch(/^[1-9]\d* of 80 scenarios compared with the web build, 0 differ\n$/);
  expect(done.status).toBe(0);
}, 120_000);
