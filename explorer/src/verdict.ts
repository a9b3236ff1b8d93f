// Who gains and who suffers, in sentences: above the results, and in the head of every picture.

import { dumbbellOf, type Document } from './document';
import type { FlowSummary, Outcome } from './engine';
import { digits } from './quantity';
import { resolved } from './series';
import { felt, waiting } from './words';

/** What a call, a reader or a ping had, rather than a rate: people wait for these. */
const isPerson = (flow: FlowSummary): boolean =>
  [flow.mos, flow.page_load_ms].some((value) => value !== undefined && value !== null && Number.isFinite(value));

export interface Verdict {
  /** Transfers, with what they got. */
  gains: string[];
  /** People whose figure is bad, the worst first. */
  suffers: string[];
  /** People whose figure is good. */
  spared: string[];
  /** The worst of all, from 0 (good) to 2. */
  worry: 0 | 1 | 2;
}

const MOST = 3;

/** What it means and how long it takes; the card of the flow has the rest. */
const brief = (meaning: string): string => meaning.split('; ').slice(0, 2).join('; ');

export function verdict(outcome: Outcome): Verdict {
  const specs = resolved(outcome).flows;
  const people = outcome.flows.filter(isPerson).map((flow) => ({ flow, felt: felt(flow) }));
  const bad = people.filter(({ felt }) => felt.worry > 0).sort((a, b) => b.felt.worry - a.felt.worry);
  const transfers = outcome.flows
    .map((flow, at) => ({ flow, start: (specs[at]?.start_ps ?? 0) / 1e12 }))
    .filter(({ flow }) => flow.cc && !isPerson(flow) && flow.goodput_mbps > 0)
    .sort((a, b) => b.flow.goodput_mbps - a.flow.goodput_mbps);
  return {
    gains: transfers
      .slice(0, MOST)
      .map(
        ({ flow, start }) =>
          `${flow.name} ${start > 0 ? `starts at ${digits(start, 3)} s and ` : ''}gets ${digits(flow.goodput_mbps)} Mbit/s`,
      ),
    suffers: bad.slice(0, MOST).map(({ flow, felt }) => `${flow.name} suffers: ${felt.figure}, ${brief(felt.meaning)}`),
    spared: people.filter(({ felt }) => felt.worry === 0).map(({ flow, felt }) => `${flow.name} (${felt.figure})`),
    worry: bad[0]?.felt.worry ?? 0,
  };
}

/** The verdict in whole sentences; none of a run without flows. */
export function sentences({ gains, suffers, spared }: Verdict): string[] {
  const out = [gains.join('; '), ...suffers];
  if (spared.length) out.push(`good: ${spared.slice(0, MOST).join(', ')}`);
  return out.filter(Boolean).map((text) => `${text[0]!.toUpperCase()}${text.slice(1)}.`);
}

/** A change of the scenario that shortens the wait in its queue. */
export interface Remedy {
  label: string;
  queue: string;
}

/** What may help where people wait in a drop-tail queue of a dumbbell: none where that is not so. */
export function remedies(outcome: Outcome, document: Document): Remedy[] {
  const neck = resolved(outcome).links.find((link) => link.name === 'bottleneck');
  const { rtt, fields } = dumbbellOf(document);
  if (document['dumbbell'] === undefined || neck?.queue.discipline !== 'fifo') return [];
  if (fields['queue'] === '1bdp' || fields['queue'] === undefined) return [{ label: 'Put FQ-CoDel there', queue: 'fq_codel' }];
  return [
    { label: 'Put FQ-CoDel there', queue: 'fq_codel' },
    { label: `Shorten the queue to ${waiting(1e3 * rtt)}`, queue: '1bdp' },
  ];
}
