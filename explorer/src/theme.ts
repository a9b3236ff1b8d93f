import { effect, signal } from '@preact/signals';

export type Choice = 'system' | 'light' | 'dark';
const system = window.matchMedia('(prefers-color-scheme: dark)');
const KEY = 'tailback-theme';

function kept(): Choice {
  try {
    const value = localStorage.getItem(KEY);
    return value === 'light' || value === 'dark' ? value : 'system';
  } catch {
    // Storage can be forbidden; then the system decides.
    return 'system';
  }
}

export const choice = signal<Choice>(kept());
const isDark = signal(system.matches);
system.addEventListener('change', () => (isDark.value = system.matches));

export const theme = signal<'light' | 'dark'>('light');

effect(() => {
  const now = choice.value === 'system' ? (isDark.value ? 'dark' : 'light') : choice.value;
  document.documentElement.dataset['theme'] = now;
  theme.value = now;
  try {
    localStorage.setItem(KEY, choice.value);
  } catch {
    // Storage is not available.
  }
});
