// The scenario as text: completion and errors in place. Loaded when it is opened.

import {
  autocompletion,
  type Completion,
  type CompletionContext,
  type CompletionResult,
} from '@codemirror/autocomplete';
import { defaultKeymap, history, historyKeymap, indentWithTab } from '@codemirror/commands';
import { HighlightStyle, StreamLanguage, syntaxHighlighting } from '@codemirror/language';
import { toml as tomlMode } from '@codemirror/legacy-modes/mode/toml';
import { lintGutter, setDiagnostics, type Diagnostic } from '@codemirror/lint';
import { EditorState } from '@codemirror/state';
import { EditorView, drawSelection, highlightActiveLine, keymap, lineNumbers } from '@codemirror/view';
import { effect } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { tags } from '@lezer/highlight';
import { suggestions } from '../complete';
import type { Problem } from '../engine';
import { catalogue, change, everything, problems, toml } from '../state';

const colours = HighlightStyle.define([
  { tag: tags.comment, color: 'var(--soft)', fontStyle: 'italic' },
  { tag: [tags.string, tags.special(tags.string)], color: 'var(--text-green)' },
  { tag: [tags.number, tags.bool, tags.atom], color: 'var(--text-blue)' },
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: 'var(--ink)' },
  { tag: [tags.bracket, tags.squareBracket], color: 'var(--text-vermilion)' },
]);

function diagnostics(state: EditorState, all: readonly Problem[]): Diagnostic[] {
  return all.map((problem) => {
    const line = state.doc.line(Math.min(Math.max(problem.line ?? 1, 1), state.doc.lines));
    const from = Math.min(line.from + Math.max((problem.column ?? 1) - 1, 0), line.to);
    const value = /^[^#]*/.exec(line.text.slice(from - line.from))![0].trimEnd();
    return {
      from,
      to: Math.max(from, Math.min(line.to, from + Math.max(value.length, 1))),
      severity: 'error',
      message: [problem.message, problem.fix].filter(Boolean).join('\n'),
    };
  });
}

function complete(context: CompletionContext): CompletionResult | null {
  const schema = everything.peek()?.json_schema;
  if (!schema) return null;
  const found = suggestions(context.state.doc.toString(), context.pos, schema, catalogue.peek());
  if (!found || (!context.explicit && found.from === context.pos && !found.isValue)) return null;
  return {
    from: found.from,
    options: found.options.map((option): Completion => ({ ...option, type: found.isValue ? 'enum' : 'property' })),
    validFor: /^[\w."-]*$/,
  };
}

export default function Editor() {
  const holder = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const view = new EditorView({
      parent: holder.current!,
      state: EditorState.create({
        doc: toml.peek(),
        extensions: [
          lineNumbers(),
          history(),
          drawSelection(),
          highlightActiveLine(),
          lintGutter(),
          StreamLanguage.define(tomlMode),
          syntaxHighlighting(colours),
          autocompletion({ override: [complete] }),
          // Tab moves on, as everywhere in a page; the editor says how it indents.
          keymap.of([...defaultKeymap, ...historyKeymap, { ...indentWithTab, key: 'Ctrl-]' }]),
          EditorView.contentAttributes.of({ 'aria-label': 'The scenario as TOML' }),
          EditorView.lineWrapping,
          EditorView.updateListener.of((update) => {
            if (update.docChanged && update.state.doc.toString() !== toml.peek())
              change(update.state.doc.toString(), 'typing');
          }),
        ],
      }),
    });
    const follow = effect(() => {
      const text = toml.value;
      if (text !== view.state.doc.toString()) {
        view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } });
      }
    });
    const mark = effect(() => view.dispatch(setDiagnostics(view.state, diagnostics(view.state, problems.value))));
    return () => {
      follow();
      mark();
      view.destroy();
    };
  }, []);
  return <div class="editor" ref={holder} />;
}
