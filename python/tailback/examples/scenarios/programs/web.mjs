// A web server and its client in Node: `web.mjs serve ADDRESS PORT`, `http.mjs get URL COUNT`.
import http from 'node:http';

const [what, where, number] = process.argv.slice(2);
if (what === 'serve') {
  const body = Buffer.alloc(500000);
  http.createServer((_, answer) => answer.end(body)).listen(Number(number), where);
} else {
  const agent = new http.Agent({ keepAlive: false });
  const get = () =>
    new Promise((done, failed) => {
      http
        .get(where, { agent }, (answer) => {
          let got = 0;
          answer.on('data', (part) => (got += part.length));
          answer.on('end', () => done(got));
        })
        .on('error', failed);
    });
  const began = process.hrtime.bigint();
  let got = 0;
  for (let n = 0; n < Number(number); n++) got += await get();
  const took = Number(process.hrtime.bigint() - began) / 1e9;
  console.log(`bytes ${got} seconds ${took.toFixed(9)} rate ${((got * 8e-6) / took).toFixed(6)}`);
}
