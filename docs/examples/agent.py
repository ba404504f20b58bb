#!/usr/bin/env python3
"""An agent of a Roadstead team, complete, with nothing but Python's standard library (3.9 or newer).

    API=http://127.0.0.1:7420/api KEY=rsk_... ORG=acme TEAM=... AGENT=... python3 agent.py

KEY is an API key; TEAM and AGENT are ids. It waits for wakes with a long poll. With a port as its
argument and WAKE_SECRET=whsec_... it waits for posted wakes instead, at the agent's `wakeUrl`.

`work` and `read` are where a model comes in.
"""

import base64, hashlib, hmac, http.server, json, os, queue, random, sys, threading, time, uuid
import urllib.error, urllib.request
from urllib.parse import urlencode

NEEDED = {
    "API": "the URL of the API, such as http://127.0.0.1:7420/api",
    "KEY": "an API key, rsk_...",
    "ORG": "the slug of the organization",
    "TEAM": "the id of the team",
    "AGENT": "the id of the agent in the team",
}
if sys.argv[1:]:
    NEEDED["WAKE_SECRET"] = "the wakeSecret that was shown when the wakeUrl was set, whsec_..."

missing = [name for name in NEEDED if not os.environ.get(name)]
for name in missing:
    print(f"set {name}: {NEEDED[name]}", file=sys.stderr)
if missing:
    sys.exit(2)

API, KEY, ORG = os.environ["API"].rstrip("/"), os.environ["KEY"], os.environ["ORG"]
TEAM, AGENT = f"/teams/{os.environ['TEAM']}", os.environ["AGENT"]


def call(method, path, **fields):
    """Calls the API. While the server is busy or the agent paused, it waits and tries again."""
    fields["orgSlug"] = ORG
    headers = {"X-API-Key": KEY}
    query, body = "", None
    if method == "GET":
        query = "?" + urlencode(fields)
    else:
        body = json.dumps(fields).encode()
        headers["Content-Type"] = "application/json"
    if method == "POST":
        # However often it is sent, it is done once.
        headers["Idempotency-Key"] = str(uuid.uuid4())
    pause = 1
    while True:
        request = urllib.request.Request(API + path + query, body, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=90) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            problem = error.read().decode()
            is_paused = error.code == 409 and '"agent_paused"' in problem
            if error.code not in (429, 502, 503) and not is_paused:
                error.problem = problem
                raise
            seconds = int(error.headers.get("Retry-After", pause))
        except OSError as error:  # Not reachable, or broken off.
            problem, seconds = error, pause
        print(f"waiting {seconds} s: {problem}", file=sys.stderr)
        # Not all at the same moment.
        time.sleep(seconds + random.random() * pause)
        pause = min(pause * 2, 60)


def work(task):
    """Does a claimed task, and says so to the people."""
    if call("GET", f"{TEAM}/tasks/{task['id']}")["status"] != "in_progress":
        return  # Two wakes may be about one task, and it is done or blocked since.
    print("working on", task["title"], flush=True)
    call("POST", f"{TEAM}/inbox", fromAgentId=AGENT, taskId=task["id"], subject=task["title"],
         body=f"It is done. (You asked: {task['description'] or 'nothing more'})")
    call("PATCH", f"{TEAM}/tasks/{task['id']}", status="done", fromAgentId=AGENT)


def read(**which):
    """Reads all unread mail: wakes about the same thing join, so there may be several."""
    for message in call("GET", f"{TEAM}/messages", unread="true", limit=200, **which)["items"]:
        if message["toAgentId"] in (None, AGENT):  # Not mail to others about the task.
            print("reading", message["body"], flush=True)
            call("POST", f"{TEAM}/messages/{message['id']}/consume", agentId=AGENT)


def take(wake):
    """Takes what a wake is about; returns the task to work on, if there is one."""
    if wake["reason"] in ("task_assigned", "task_unblocked", "task_reopened", "claim_expired",
                          "dependency_done"):
        try:
            task = call("GET", f"{TEAM}/tasks/{wake['taskId']}")
            if task["status"] in ("open", "in_progress"):
                return call("POST", f"{TEAM}/tasks/{task['id']}/claim", agentId=AGENT)
        except urllib.error.HTTPError as error:
            if error.code not in (404, 409):  # It is gone, closed, or another agent's.
                raise
    elif wake["reason"] == "direct_message":
        read(agentId=AGENT)
    elif wake["reason"] == "schedule":
        print("told", wake["text"], flush=True)
    elif wake["reason"] == "wake_failed":
        print("an agent does not acknowledge its wakes:", wake["failedAgentId"], flush=True)
    elif wake["taskId"]:
        read(taskId=wake["taskId"], audience="agent")
    return None


def resume():
    """Works on what was claimed before a crash."""
    for task in call("GET", f"{TEAM}/tasks", assigneeAgentId=AGENT, status="in_progress")["items"]:
        work(task)


def poll():
    """Waits for wakes, one at a time: what is fetched and not begun in 60 s is handed out again."""
    wakes = f"{TEAM}/agents/{AGENT}/wakes"
    resume()
    while True:
        for wake in call("GET", wakes, wait=55, limit=1)["items"]:
            task = take(wake)
            # Before the work, which may take longer than the lease of the wake.
            call("POST", f"{wakes}/ack", wakeIds=[wake["id"]])
            if task:
                work(task)


def verified(headers, body, secret, tolerance=300):
    """Whether a posted body is signed with the secret, recently (Standard Webhooks)."""
    try:
        stamp = headers["webhook-timestamp"]
        if abs(time.time() - int(stamp)) > tolerance:
            return False
        signed = f"{headers['webhook-id']}.{stamp}.".encode() + body
        key = base64.b64decode(secret.removeprefix("whsec_"))
        right = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
        sent = headers["webhook-signature"].split()
        return any(hmac.compare_digest(one, "v1," + right) for one in sent)
    except (AttributeError, TypeError, ValueError):
        return False


def listen(port):
    """Waits for posted wakes; a 2xx acknowledges one."""
    tasks = queue.Queue()

    class Receiver(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            status = 204
            if not verified(self.headers, body, os.environ["WAKE_SECRET"]):
                status = 401
            elif (posted := json.loads(body))["type"] == "wake":
                # The server waits 10 seconds: the work comes after the answer.
                if task := take(posted["data"]):
                    tasks.put(task)
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_):
            pass

    resume()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    while True:
        work(tasks.get())


if __name__ == "__main__":
    try:
        listen(int(sys.argv[1])) if sys.argv[1:] else poll()
    except urllib.error.HTTPError as error:
        # 401 or 404: the key was revoked, or the agent left the team.
        sys.exit(f"{error}: {getattr(error, 'problem', '')}")
