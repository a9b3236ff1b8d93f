// What the cards of applications say. `scripts/explorer_wasm` asks the module for them when it is compiled.

import cards from './engine/wasm/applications.json';

interface Application {
  name: string;
  /** What users call it. */
  plain: string;
  transport: string;
  /** Its client only asks: what it waits for comes from the other end. */
  only_asks: boolean;
  carries_packets: boolean;
  runs_programs: boolean;
}

const BY_NAME = new Map((cards as Application[]).map((card) => [card.name, card]));

export const plain = (app: string): string => BY_NAME.get(app)?.plain ?? app;
export const isOverUdp = (app: string): boolean => BY_NAME.get(app)?.transport === 'udp';
export const onlyAsks = (app: string): boolean => BY_NAME.get(app)?.only_asks ?? false;
export const carriesPackets = (app: string): boolean => BY_NAME.get(app)?.carries_packets ?? false;
/** Can the simulator run it by itself, as a flow that is added? */
export const isOffered = (app: string): boolean =>
  !carriesPackets(app) && !(BY_NAME.get(app)?.runs_programs ?? false);
