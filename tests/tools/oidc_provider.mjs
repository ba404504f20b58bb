// A provider of sign-ins (oidc-provider of npm) over TLS, and a person with a browser there.
//
// Arguments: where oidc-provider is installed, a certificate for localhost and its key, and the secret of the
// client. It prints its issuer as a line of JSON, and reads in the first line where the client takes logouts
// (`client`) and where it is for browsers (`links`). Each line after it is an errand of the person, whose end
// is printed so: {"signIn": url, "as": name} leads to the provider, which answers with {"location": where it
// led back to}; {"signOut": url} ends the session there, from a page of its own if the url is "", and is answered
// with its status or with {"location": where it led to}.
import { readFileSync } from 'node:fs'
import { createServer } from 'node:https'
import { createInterface } from 'node:readline'
import { pathToFileURL } from 'node:url'

const [place, cert, key, secret] = process.argv.slice(2)
const { default: Provider } = await import(pathToFileURL(`${place}/node_modules/oidc-provider/lib/index.js`))
// What it has to say is not an answer.
console.info = console.warn
const print = (value) => process.stdout.write(`${JSON.stringify(value)}\n`)

const server = createServer({ cert: readFileSync(cert), key: readFileSync(key) })
await new Promise((listening) => server.listen(0, '127.0.0.1', listening))
const issuer = `https://localhost:${server.address().port}`
print({ issuer })
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]()
const { client, links } = JSON.parse((await lines.next()).value)
const groups = { grace: ['staff', 'ops'], henry: ['staff'] }
const provider = new Provider(issuer, {
  clients: [{
    client_id: 'roadstead',
    client_secret: secret,
    redirect_uris: [`${links}/sign-in/oidc/real/callback`],
    backchannel_logout_uri: `${client}/sign-in/oidc/real/logout`,
    backchannel_logout_session_required: true,
    post_logout_redirect_uris: [`${links}/sign-in`],
  }],
  claims: { openid: ['sub', 'groups'], email: ['email', 'email_verified'], profile: ['name'] },
  // Claims of scopes are in the ID token, not only at the userinfo endpoint.
  conformIdTokenClaims: false,
  features: { backchannelLogout: { enabled: true } },
  findAccount: (_, id) => ({
    accountId: id,
    claims: () => ({
      sub: id, name: id, email: `${id}@acme.test`, email_verified: true, groups: groups[id] ?? [],
    }),
  }),
  // It calls no addresses of this machine otherwise.
  fetch: (url, { dispatcher, ...options }) => fetch(url, options),
})
provider.on('backchannel.error', (_, error) => process.stderr.write(`${error}\n`))
server.on('request', provider.callback())

// The person's browser.
const cookies = new Map()
async function open(url, form) {
  for (let hops = 0; hops < 20; hops += 1) {
    if (!url.startsWith(issuer)) return { url }
    const cookie = [...cookies].map((pair) => pair.join('=')).join('; ')
    const sent = form && { method: 'POST', body: new URLSearchParams(form) }
    const reply = await fetch(url, { redirect: 'manual', headers: { cookie }, ...sent })
    for (const line of reply.headers.getSetCookie()) {
      const [, name, value] = line.match(/^([^=]+)=([^;]*)/)
      if (value) cookies.set(name, value)
      else cookies.delete(name)
    }
    const location = reply.headers.get('location')
    if (!location) return { url, status: reply.status, text: await reply.text() }
    url = new URL(location, url).href
    form = undefined
  }
  throw new Error('it leads on and on')
}

async function signIn(url, name) {
  let page = await open(url)
  for (const form of [{ prompt: 'login', login: name, password: 'any' }, { prompt: 'consent' }]) {
    if (!page.text?.includes(`value="${form.prompt}"`)) continue
    page = await open(page.text.match(/action="([^"]+)"/)[1], form)
  }
  return page.text ? { status: page.status, text: page.text } : { location: page.url }
}

async function signOut(url) {
  const { text } = await open(url || `${issuer}/session/end`)
  const xsrf = text.match(/name="xsrf" value="([^"]+)"/)[1]
  const page = await open(`${issuer}/session/end/confirm`, { xsrf, logout: 'yes' })
  return page.text ? { status: page.status } : { location: page.url }
}

for await (const line of lines) {
  const errand = JSON.parse(line)
  print(await ('signOut' in errand ? signOut(errand.signOut) : signIn(errand.signIn, errand.as)).catch((error) => ({
    error: `${error} ${error.cause ?? ''}`,
  })))
}
process.exit(0)
