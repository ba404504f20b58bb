// Between the conformance suite of the protocol and a server: adds the API key, which the suite cannot
// send, and turns the names that the suite asks for into those of the test's organization.

import http from "node:http";

const { address, key, names } = JSON.parse(process.env.GIVEN);
const [hostname, port] = address.split(":");

function renamed(body) {
  const message = body.length ? JSON.parse(body) : {};
  const { params = {} } = message;
  for (const [object, field] of [[params, "name"], [params, "uri"], [params.ref ?? {}, "name"]]) {
    object[field] = names[object[field]] ?? object[field];
  }
  return body.length ? JSON.stringify(message) : "";
}

const server = http.createServer(async (request, response) => {
  const body = renamed(Buffer.concat(await Array.fromAsync(request)).toString());
  const headers = { ...request.headers, "x-api-key": key };
  headers["content-length"] = Buffer.byteLength(body);
  delete headers["transfer-encoding"];
  const { method, url: path } = request;
  const onward = http.request({ hostname, port, method, path, headers }, (answer) => {
    response.writeHead(answer.statusCode, answer.headers);
    answer.pipe(response);
  });
  onward.on("error", () => response.destroy());
  onward.end(body);
});
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
