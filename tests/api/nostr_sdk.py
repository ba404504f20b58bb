import base64, hashlib, http.server, json, ssl, sys, threading, urllib.error, urllib.request

from nostr_sdk import EventBuilder, Keys, Kind, Nip05Address, Tag, nip05_verify_from_json

keys = Keys.generate()
last = None


def serve(handle, certificate, key):
    name, domain = handle.split("@")
    document = json.dumps({"names": {name: keys.public_key().to_hex()}})
    assert nip05_verify_from_json(keys.public_key(), Nip05Address.parse(handle), document)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Length", str(len(document)))
            self.end_headers()
            self.wfile.write(document.encode())

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return {"port": server.server_address[1], "pubkey": keys.public_key().to_hex()}


def send(method, url, body):
    global last
    data = json.dumps(body).encode() if body is not None else None
    tags = [["u", url], ["method", method]]
    if data:
        tags.append(["payload", hashlib.sha256(data).hexdigest()])
    builder = EventBuilder(Kind(27235), "").tags([Tag.parse(tag) for tag in tags])
    token = base64.b64encode(builder.finalize(keys).as_json().encode()).decode()
    headers = {"Authorization": f"Nostr {token}", "Content-Type": "application/json"}
    last = urllib.request.Request(url, data, headers, method=method)
    return replay()


def replay():
    try:
        with urllib.request.urlopen(last) as answer:
            return {"status": answer.status, "body": json.load(answer)}
    except urllib.error.HTTPError as error:
        return {"status": error.code, "body": json.load(error)}


def verify(pubkey, handle, document):
    from nostr_sdk import PublicKey

    address = Nip05Address.parse(handle)
    return nip05_verify_from_json(PublicKey.parse(pubkey), address, document)


for line in sys.stdin:
    order, *rest = json.loads(line)
    if order == "serve":
        answer = serve(*rest)
    elif order == "replay":
        answer = replay()
    elif order == "verify":
        answer = verify(*rest)
    else:
        answer = send(order, *rest)
    print(json.dumps(answer), flush=True)
