import { render } from 'preact';
import { begin, engine } from './state';
import { App } from './ui/app';
import './style.css';

// The module is fetched and compiled while the page is laid out; a failure is told by the first run.
engine.ready().catch(() => undefined);

const root = document.getElementById('app')!;
root.textContent = '';
render(<App />, root);
void begin();
