import { render } from 'preact';
import { begin } from './state';
import { App } from './ui/app';
import './style.css';

const root = document.getElementById('app')!;
root.textContent = '';
render(<App />, root);
void begin();
