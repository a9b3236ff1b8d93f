// The words of the field that a student may not know, each explained once. Where one of them stands in the page it can be
// asked about: `ui/help.tsx`.

/** A term as it is looked up, the forms in which it stands in sentences, and what it means. */
export interface Term {
  forms: string[];
  means: string;
}

export const GLOSSARY = {
  mos: {
    forms: ['mean opinion score', 'MOS'],
    means:
      'Mean opinion score: how people would rate a call, computed from its delay and losses (ITU-T G.107). 4.5 is the best, 1 the worst; below 3.6 many complain. It supposes the best constant playout delay in every ten seconds: how far the delay swings is not rated.',
  },
  bdp: {
    forms: ['bandwidth-delay product', 'BDP'],
    means:
      'Bandwidth-delay product: rate × round trip, which is what the path itself holds when the link is just busy. A queue of 1 BDP takes one round trip to send.',
  },
  quantile: {
    forms: ['95 %', '95\u00a0%'],
    means: '95 % of the packets, or of the time, are at or below this value. Only one in twenty is above it.',
  },
  median: {
    forms: ['median'],
    means: 'The value in the middle: half of the packets, or of the time, are below it and half above.',
  },
  fifo: {
    forms: ['FIFO drop-tail', 'drop-tail'],
    means: 'First in, first out: one queue for all. A packet that no longer fits in is dropped, and nothing else ever is.',
  },
  codel: {
    forms: ['FQ-CoDel'],
    means: 'A queue for each flow, served in turn. CoDel drops from one whose packets have waited too long.',
  },
  seed: {
    forms: ['Seed'],
    means: 'Where the random numbers begin. The same scenario with the same seed gives the same run, byte for byte.',
  },
  mark: {
    forms: ['Marks'],
    means: 'Packets that a queue marked (ECN) in place of dropping them: the sender learns that it must slow down, and nothing is lost.',
  },
  hash: {
    forms: ['Hash of the rows'],
    means: 'A fingerprint of all that was recorded. Two runs with the same fingerprint are the same run.',
  },
  jain: {
    forms: ["Jain's index"],
    means: 'How equal shares are: 1 if all are equal, 1/n if one of n flows has everything.',
  },
  cwnd: {
    forms: ['Congestion window'],
    means: 'How much a sender may have under way without an acknowledgement.',
  },
  queue: {
    forms: ['Waiting in the queue'],
    means:
      'How long a packet that comes now waits until the link has sent all before it, the rest of the packet that is being sent included.',
  },
  aqm: {
    forms: ['aqm'],
    means: 'Active queue management: the queue dropped or marked by its rule, before it was full.',
  },
  full: {
    forms: ['queue-full'],
    means: 'The packet no longer fitted into the queue.',
  },
  hystart: {
    forms: ['HyStart'],
    means: 'A rule that ends the doubling of slow start as soon as the round trip grows, before anything is lost.',
  },
  ack: {
    forms: ['ACKs', 'ACK'],
    means: 'Acknowledgement: the receiver reports to the sender what has arrived.',
  },
  goodput: {
    forms: ['goodput'],
    means: 'What arrived at the receiving application in a second. A byte that was sent twice counts once.',
  },
  jitter: {
    forms: ['jitter'],
    means: 'How much the delay changes from one packet to the next: the mean of the estimate of RFC 3550.',
  },
  bufferbloat: {
    forms: ['bufferbloat'],
    means: 'A queue so long, and so full, that everybody behind it waits a good part of a second.',
  },
  codelAlone: {
    forms: ['CoDel'],
    means: 'One queue for all. It drops or marks now and then as soon as packets have waited more than 5 ms for a tenth of a second.',
  },
} satisfies Record<string, Term>;

export type Name = keyof typeof GLOSSARY;

const BY_FORM = new Map(
  Object.entries(GLOSSARY).flatMap(([name, term]) => term.forms.map((form) => [form, name as Name] as const)),
);
const escaped = (text: string): string => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
const FORMS = new RegExp(
  `(?<![\\w-])(${[...BY_FORM.keys()]
    .sort((a, b) => b.length - a.length)
    .map(escaped)
    .join('|')})(?![\\w-])`,
);

/** A sentence in parts: words, and the first of each term that can be asked about. */
export function terms(sentence: string, known = new Set<Name>()): { text: string; term?: Name }[] {
  return sentence.split(FORMS).flatMap((part, index) => {
    const term = index % 2 ? BY_FORM.get(part) : undefined;
    if (term === undefined || known.has(term)) return part ? [{ text: part }] : [];
    known.add(term);
    return [{ text: part, term }];
  });
}
