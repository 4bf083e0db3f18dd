"""A receiver of webhooks with Flask. A SQLite file remembers the messages that were handled.

    pip install flask
    WEBHOOK_SECRET=whsec_… PORT=9000 python3 receiver.py
"""

import base64
import hashlib
import hmac
import os
import sqlite3
import time
from contextlib import closing

from flask import Flask, request

app = Flask(__name__)
app.config["MAX_CONTENT_LENGTH"] = 2 * 1024 * 1024


def verify(secret: str, headers, body: bytes) -> bool:
    """`headers` maps lower-case names, or ignores case as Flask's and Django's do."""
    message_id = headers.get("webhook-id", "")
    timestamp = headers.get("webhook-timestamp", "")
    try:
        age = abs(time.time() - int(timestamp))
    except ValueError:
        return False
    if age > 300:
        return False
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signed = f"{message_id}.{timestamp}.".encode() + body
    expected = b"v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest())
    entries = headers.get("webhook-signature", "").split(" ")
    return any(hmac.compare_digest(entry.encode(), expected) for entry in entries)


@app.post("/")
@app.post("/webhooks")
def receive():
    body = request.get_data()
    if not verify(os.environ["WEBHOOK_SECRET"], request.headers, body):
        return {"code": "not_genuine"}, 401
    # The id and the work are committed together, or neither. A second request for the same message waits meanwhile.
    path = os.environ.get("HANDLED_DB", "handled.db")
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("create table if not exists handled_webhook (id text primary key)")
        new = database.execute(
            "insert into handled_webhook (id) values (?) on conflict do nothing", [request.headers["webhook-id"]]
        )
        if new.rowcount == 0:
            return {"status": "duplicate"}
        handle(database, request.headers["webhook-id"], body)
    return {"status": "handled"}


def handle(database, message_id: str, body: bytes) -> None:
    """Your work, in the same transaction. An error is answered with 500, and Sluice sends the message again."""
    print("handled", message_id, flush=True)


if __name__ == "__main__":
    app.run("127.0.0.1", int(os.environ.get("PORT", "9000")), threaded=True)
