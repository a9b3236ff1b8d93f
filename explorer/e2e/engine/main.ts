// The engine alone, for the tests.

import { Engine } from '../../src/engine/index';

Object.assign(window, { Engine, engine: new Engine() });
