"""A mail server for tests: prints each mail that it accepts as a line of JSON.

Two ports, printed first: one with STARTTLS, one with TLS from the start. Both take mail only after a
login over TLS. Arguments: the certificate and its key.
"""

import asyncio
import email
import email.policy
import json
import ssl
import sys

from aiosmtpd.smtp import SMTP, AuthResult


class Inbox:
    async def handle_RCPT(self, server, session, envelope, address, options):
        if address.startswith("nobody@"):
            return "550 5.1.1 there is no such mailbox"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server, session, envelope):
        mail = email.message_from_bytes(envelope.content, policy=email.policy.default)
        leaves = mail.iter_parts() if mail.is_multipart() else [mail]
        parts = {part.get_content_type(): part.get_content() for part in leaves}
        print(json.dumps({
            "tls": server.transport.get_extra_info("ssl_object") is not None,
            "from": envelope.mail_from,
            "to": envelope.rcpt_tos,
            "headers": {name.lower(): value for name, value in mail.items()},
            "plain": parts.get("text/plain"),
            "html": parts.get("text/html"),
        }), flush=True)
        return "250 OK"


def authenticate(server, session, envelope, mechanism, login):
    known = (login.login, login.password) == (b"mailer", b"geheim:1/")
    return AuthResult(success=known, handled=known)


async def main():
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(sys.argv[1], sys.argv[2])
    loop = asyncio.get_running_loop()

    def with_starttls():
        return SMTP(Inbox(), hostname="localhost", authenticator=authenticate, auth_required=True,
                    auth_require_tls=True, require_starttls=True, tls_context=tls)

    def within_tls():
        return SMTP(Inbox(), hostname="localhost", authenticator=authenticate, auth_required=True,
                    auth_require_tls=False)

    first = await loop.create_server(with_starttls, "127.0.0.1", 0)
    second = await loop.create_server(within_tls, "127.0.0.1", 0, ssl=tls)
    ports = [server.sockets[0].getsockname()[1] for server in (first, second)]
    print(json.dumps(ports), flush=True)
    await asyncio.gather(first.serve_forever(), second.serve_forever())


asyncio.run(main())
