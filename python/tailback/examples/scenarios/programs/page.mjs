// A page of 30 objects, which says when all of them have come: `page.mjs ADDRESS PORT`.
import http from "node:http";

const [address, port] = process.argv.slice(2);
const objects = 30;
const picture = Buffer.from(`<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><!--${"x".repeat(20_000)}--></svg>`);
const images = Array.from({ length: objects }, (_, number) => `<img src="/${number}.svg">`).join("");
const script = `onload = () => {
  const took = performance.now(), got = [...document.images].filter((image) => image.naturalWidth > 0).length;
  document.body.textContent = "objects " + got + " ms " + took.toFixed(3);
}`;
const page = `<!doctype html><title>x</title><body>${images}<script>${script}</script></body>`;

http.createServer((request, answer) => {
  const isPage = request.url === "/";
  answer.setHeader("content-type", isPage ? "text/html" : "image/svg+xml");
  answer.end(isPage ? page : picture);
}).listen(Number(port), address);
